--- How many stacks did not fit in the max_bytes of profiles and were added to (other): for the closing line.
return { stacks = 0 }
