"""The labs: experiments beside a run, on the same engine thread."""
