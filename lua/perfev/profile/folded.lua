--- Writes folded text: a line "outermost;…;leaf count" for each stack, the input of Brendan Gregg's FlameGraph.
-- All lines together can be many times larger than the tree, so C makes them in pieces (src/profile/folded.c).

return function(profile, opts, write)
  local pieces = {}
  profile.stack_tree:fold(profile:value(opts.value), opts.annotate)
  for piece in function() return profile.stack_tree:fold_next() end do
    if write then write(piece) else pieces[#pieces + 1] = piece end
  end
  return table.concat(pieces)
end
