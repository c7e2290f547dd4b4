-- What perfl exports of a script: what the script made before its session started, under names that do not change.

local run = require "spec.support.run"

local SCRIPT = [=[
local exported = require "perfev.aggregate.exported"
local kept = {
  perfev.count { by = { "comm", "args.ret" } }, perfev.count { by = { "comm", "args.ret" } },
  perfev.hist { title = "Latency of reads, by DISK!" }, perfev.profile { title = "on-CPU" }, perfev.profile {},
  perfev.profile {}, perfev.count {}, perfev.hist { low = 0, high = 5, step = 1, title = "..." },
  perfev.count { title = "count by comm args ret 2" }, perfev.count { title = "ééé", by = "tid" },
}
kept[1]:add(3, "sh", 0)
kept[4]:add("main;f", 2)
local copies = { kept[1]:delta(), perfev.unpack(kept[1]:pack()), kept[4]:delta(), perfev.unpack(kept[4]:pack()),
  kept[4]:diff(kept[5]), perfev.profile.read "a 1" }
kept[4]:sampler { under = "comm" }
do local dropped = perfev.count { title = "dropped" } end
collectgarbage()
local followers
perfev.begin(function()
  copies[#copies + 1] = perfev.count { title = "late" }
  copies[#copies + 1] = perfev.profile { title = "late" }
  followers = {}
  for i, entry in ipairs(exported.list()) do
    print(entry.name, entry.kind, entry.source == kept[i])
    followers[i] = exported.follow(entry)
  end
  kept[1]:add(4, "sh", 1)
  kept[1]:clear()
  kept[4]:clear()
  kept[1]:add(5, "sh", 2)
  kept[4]:add("main;g", 7)
end)
perfev.done(function()
  for _, entry in ipairs(exported.list()) do assert(entry.source) end
  print(#exported.list(), followers[1]:delta():get("sh", 0), followers[1]:total():get("sh", 1), kept[1]:get("sh", 1))
  print(followers[4]:delta():folded(), followers[4]:total():total(), kept[4]:total(), followers[5]:total() == kept[5])
end)
]=]

describe("the exported aggregators and profiles", function()
  it("are those that the script made itself, before its session started", function()
    local r = run { run.perfl, "-q", "-e", SCRIPT, "--", "true" }
    assert.equal("", r.err)
    assert.equal(table.concat({
      "count_by_comm_args_ret\tcount\ttrue", "count_by_comm_args_ret_2\tcount\ttrue",
      "latency_of_reads_by_disk\thist\ttrue", "on_cpu\tprofile\ttrue", "profile\tprofile\ttrue",
      "profile_2\tprofile\ttrue", "count\tcount\ttrue", "hist\thist\ttrue", "count_by_comm_args_ret_2_2\tcount\ttrue",
      "count_by_tid\tcount\ttrue", "10\t3\t4\tnil", "main;f 2\nmain;g 7\n\t9\t7\ttrue", "" }, "\n"),
      (r.out:gsub("%(nothing.*", "")))
  end)
end)
