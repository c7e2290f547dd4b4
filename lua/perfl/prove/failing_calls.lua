--- The errnos that each system call of perfl may return, from its man page and from the kernel's code of perf events.

local M = {}

local errnos = {
  perf_event_open = "E2BIG EACCES EBADF EBUSY EINVAL EINTR EMFILE ENFILE ENODEV ENOENT ENOMEM ENOSPC ENOSYS EOPNOTSUPP "
    .. "EOVERFLOW EPERM ESRCH",
  mmap = "EACCES EAGAIN EINVAL ENFILE ENODEV ENOMEM EPERM EBUSY", munmap = "EINVAL",
  ["ioctl ENABLE"] = "EINVAL EBADF ENOTTY", ["ioctl DISABLE"] = "EINVAL EBADF", ["ioctl ID"] = "EFAULT ENOTTY EINVAL",
  ["ioctl SET_FILTER"] = "EINVAL ENOMEM ENOENT EPERM", ["ioctl SET_OUTPUT"] = "EINVAL EBADF",
  ["ioctl RESET"] = "EINVAL", ["ioctl REFRESH"] = "EINVAL", ["ioctl PERIOD"] = "EINVAL",
  ["ioctl PAUSE_OUTPUT"] = "EINVAL", ["ioctl SET_BPF"] = "EINVAL EEXIST", ["ioctl QUERY_BPF"] = "EPERM EINVAL",
  epoll_create = "EINVAL EMFILE ENFILE ENOMEM", epoll_ctl = "EBADF EEXIST EINVAL ENOENT ENOMEM ENOSPC EPERM",
  epoll_wait = "EINTR EBADF EINVAL", read = "EINTR EIO EAGAIN EBADF EINVAL ENOSPC", close = "EINTR EIO",
  timerfd = "EINVAL EMFILE ENFILE ENODEV ENOMEM", signalfd = "EINVAL EMFILE ENFILE ENODEV ENOMEM",
  open = "EACCES EINTR EMFILE ENFILE ENOENT ENOMEM EPERM EIO", slurp = "EACCES EMFILE ENFILE ENOENT ENOMEM EPERM EIO",
  list = "EACCES EMFILE ENFILE ENOENT ENOMEM", readlink = "EACCES EINVAL EIO ENOENT ENOMEM",
  stat = "EACCES ENOENT ENOMEM", fstat = "EBADF ENOMEM", pread = "EINTR EIO EINVAL",
  writev = "EINTR EIO ENOSPC EDQUOT EFBIG",
  pwrite = "EINTR EIO ENOSPC EDQUOT EFBIG", ftruncate = "EINTR EIO EINVAL", rename = "EACCES ENOENT ENOSPC EROFS",
  unlink = "EACCES ENOENT EROFS", append = "EACCES EBUSY EEXIST EINVAL ENOENT ENOMEM EPERM",
  spawn = "EAGAIN ENOMEM EMFILE", release = "EBADF EPIPE", wait = "ECHILD EINTR", kill = "EPERM ESRCH",
  pidfd_open = "EINVAL EMFILE ENFILE ENODEV ENOMEM ESRCH ENOSYS", fcntl = "EBADF EINVAL EPERM",
  directory = "EACCES ENOENT EMFILE",
}

-- Failures after which the run must go on as if nothing had happened.
local harmless = { ["epoll_wait EINTR"] = true }

--- The failures to try: { call =, nth =, errno =, harmless = }, each once.
-- @tparam table calls  name -> how often a run without failures made it
-- @tparam integer most the highest nth
function M.list(calls, most)
  local names, list = {}, {}
  for name in pairs(calls) do
    if errnos[name] then names[#names + 1] = name end
  end
  table.sort(names)
  for nth = 1, most do
    for _, name in ipairs(names) do
      for errno in errnos[name]:gmatch "%S+" do
        if nth <= calls[name] then
          list[#list + 1] = { call = name, nth = nth, errno = errno, harmless = harmless[name .. " " .. errno] }
        end
      end
    end
  end
  return list
end

return M
