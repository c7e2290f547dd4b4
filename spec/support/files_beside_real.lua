-- Serves the files of a simulated kernel and of the real one together, for specs of recordings.

local OURS = 1 << 20 -- added to the simulated kernel's descriptors to distinguish them from real ones

--- Returns hooks that read the files of the simulated kernel k, and the real file for every other path.
return function(k)
  local real = require("perfev").hooks.real
  local function by_fd(name)
    return function(fd, ...)
      if fd >= OURS then return k.hooks[name](fd - OURS, ...) end
      return real[name](fd, ...)
    end
  end
  local function open(path, flags)
    local fd = math.tointeger(tonumber(path:match "^/proc/self/fd/(%d+)$" or ""))
    if fd and fd >= OURS then path = "/proc/self/fd/" .. fd - OURS end
    local ours = (not fd or fd >= OURS) and k.hooks.open(path, flags)
    if ours then return ours + OURS end
    return real.open(path, flags)
  end
  return { slurp = k.hooks.slurp, readlink = k.hooks.readlink, open = open, fstat = by_fd "fstat",
           read = by_fd "read", pread = by_fd "pread", close = by_fd "close" }
end
