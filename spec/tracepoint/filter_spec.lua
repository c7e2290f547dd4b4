-- A tracepoint's filter, held against its format.

local filter = require "perfev.tracepoint.filter"

local FORMAT = [[
name: sched_switch
ID: 316
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:__data_loc char[] filename;	offset:28;	size:4;	signed:0;
	field:const char * name;	offset:32;	size:8;	signed:0;
	field:unsigned long args[6];	offset:40;	size:48;	signed:0;
	field:__data_loc cpumask_t cpus;	offset:88;	size:4;	signed:0;

print fmt: "%s", REC->prev_comm
]]

local function refused(text)
  local ok, why = filter.check("sched:sched_switch", text, FORMAT)
  return ok == nil and why or nil
end

describe("a filter", function()
  it("is accepted if the kernel accepts it", function()
    for _, text in ipairs {
      "prev_pid == 1", "prev_pid==1", " prev_pid == 1 ", "prev_pid == 1\n", "!(prev_pid == 1)", "!prev_pid == 1",
      "((prev_pid == 1))", "prev_pid >= 1&&prev_pid<=5", "prev_pid == 1 || prev_pid > 3 && !(common_pid < 4)",
      "prev_pid == 0x1f", "prev_pid == 077", "prev_pid == -1", "prev_pid == 18446744073709551615", "prev_pid & 1",
      "prev_comm == 'x'", 'prev_comm ~ "f*"', "prev_comm != ''", "filename ~ '*x'", "name == 'x'", "comm == 'x'",
      "COMM == 'x'", "cpu == 1", "CPU & CPUS{0-1,3}", "cpus & CPUS{0}", "args == 1", "common_flags & 24",
      "name.ustring == 'x'", "prev_pid == 1 &&",
    } do
      assert.is_nil(refused(text), text)
    end
  end)

  -- text, the message, the caret's offset and length
  local cases = {
    { "prv_pid == 1", "unknown field 'prv_pid' (did you mean 'prev_pid'?)", 1, 7 },
    { "prev_pid == 1 && zzzzz == 2", "unknown field 'zzzzz'", 18, 5 },
    { "prev_comm == bash", "'prev_comm' is a string: its value is quoted", 14, 4 },
    { "prev_comm == 1", "'prev_comm' is a string", 14, 1 },
    { "prev_pid == '1'", "'prev_pid' is a number: its value is not quoted", 13, 3 },
    { "prev_comm < 'x'", "'prev_comm' is a string: it has ==, != and ~", 11, 1 },
    { "prev_pid ~ '1*'", "~ is for strings, but 'prev_pid' is not one", 10, 1 },
    { "prev_pid = 1", "'=' is not an operator; equal is ==", 10, 1 },
    { "prev_pid 1", "an operator is expected after 'prev_pid'", 10, 1 },
    { "prev_pid", "an operator is expected after 'prev_pid'", 9, 1 },
    { "prev_pid && prev_pid == 1", "an operator is expected after 'prev_pid'", 10, 1 },
    { "prev_pid ==", "a number is expected after 'prev_pid ==', not the end", 12, 1 },
    { "prev_pid == abc", "a number is expected after 'prev_pid ==', not 'abc'", 13, 3 },
    { "prev_pid == 09", "a number is expected", 13, 2 },
    { "prev_pid == 1e3", "a number is expected", 13, 3 },
    { "prev_pid == 18446744073709551616", "a number is expected", 13, 20 },
    { "CPU & CPUS{0-1", "CPUS{...} has a list of CPUs", 7, 8 },
    { "(prev_pid == 1", "this parenthesis is not closed", 1, 1 },
    { "prev_pid == 1)", "no parenthesis is open here", 14, 1 },
    { "prev_comm == 'x", "the string that begins here is not closed", 14, 2 },
    { "prev_pid == 1 and prev_pid == 2", "conditions are joined by && and ||, not 'and'", 15, 3 },
    { "prev_pid == 1 prev_pid == 2", "not 'prev_pid'", 15, 8 },
    { "", "a field's name is expected at the end", 1, 1 },
    { "()", "a field's name is expected", 2, 1 },
    { "== 1", "a field's name is expected, not '=='", 1, 2 },
    { "prev_pid == 1\1", "a filter cannot contain a control byte", 14, 1 },
  }
  for _, case in ipairs(cases) do
    it(("'%s' is refused, with a caret under the mistake"):format((case[1]:gsub("%c", "?"))), function()
      local why = assert(refused(case[1]), "it was taken")
      assert.is_not_nil(why:find(case[2], 1, true), why)
      local shown, caret = why:match "\n  | ([^\n]*)\n  | ([^\n]*)\n"
      assert.equal(case[1]:gsub("%c", " "), shown)
      assert.equal((" "):rep(case[3] - 1) .. ("^"):rep(case[4]), caret)
    end)
  end

  it("is corrected if the intention is known", function()
    assert.matches("\n  try: prev_pid == 1 || prev_pid == 2$", refused "prv_pid == 1 || prev_pid == 2")
    assert.matches('\n  try: prev_comm == "bash" && prev_pid == 2$', refused "prev_comm == bash && prev_pid == 2")
    assert.matches("\n  try: prev_pid == 7$", refused "prev_pid == '7'")
    assert.matches("\n  try: prev_pid == 7$", refused "prev_pid = 7")
    assert.matches("\n  try: prev_pid == 7 && prev_pid == 8$", refused "prev_pid == 7 and prev_pid == 8")
    assert.matches('\n  try: prev_comm == "bash"$', refused "prev_comm = bash")
    assert.matches('\n  try: prev_comm == "bash" && prev_pid == 7$', refused "prev_com = bash and prv_pid = '7'")
    assert.matches("\n  try: perfl list %-v sched:sched_switch$", refused "prev_pid 1")
    assert.matches("\n  try: perfl list %-v sched:sched_switch$", refused "prev_comm = bash and 7")
  end)

  it("that is refused is reported with all fields and their types, the common ones last", function()
    local why = refused "x == 1"
    assert.matches("fields: char prev_comm%[16%], pid_t prev_pid, __data_loc char%[%] filename", why)
    assert.matches("cpumask_t cpus, unsigned short common_type, .*int common_pid, CPU, cpu, COMM, comm try:",
      (why:gsub("%s+", " ")))
    for line in why:gmatch "[^\n]+" do assert.is_true(#line <= 80, line) end
  end)

  it("is shown around the mistake if it is long", function()
    local long = ("prev_pid == 1 || "):rep(40) .. "prv_pid == 1" .. (" || prev_pid == 1"):rep(40)
    local shown, caret = refused(long):match "\n  | ([^\n]*)\n  | ([^\n]*)\n"
    assert.is_true(#shown <= 90)
    assert.equal("prv_pid", shown:sub(caret:find "%^+"))
  end)

  it("has at most the bytes of one page", function()
    assert.matches("has at most 4095 bytes, this one has 4098", refused("prev_pid == 1" .. (" "):rep(4085)))
  end)

  it("is left to the kernel if the format lists no fields", function()
    assert.is_true(filter.check("x:y", "what == ever", "name: y\nformat:\n"))
  end)

  it("is accepted or refused with a remedy for every random text of few words", function()
    math.randomseed(7)
    local letters = { "prev_pid", "prev_comm", "prv_pid", "==", "=", "and",
                      "&&", "||", "(", ")", "!", "1", "'x'", " ", "~", "&", "x", "\"" }
    local advised = 0
    for _ = 1, 3000 do
      local parts = {}
      for i = 1, math.random(0, 8) do parts[i] = letters[math.random(#letters)] end
      local text = table.concat(parts)
      local ok, why, code = filter.check("a:b", text, FORMAT)
      if not ok then
        assert.is_not_nil(why:find("filter '" .. text .. "': ", 1, true), why)
        assert.equal(22, code)
        local meant = why:match "\n  try: ([^\n]*)$"
        if not meant:find "^perfl list %-v a:b$" then
          advised = advised + 1
          assert.is_true(filter.check("a:b", meant, FORMAT), why)
        end
      end
    end
    assert.is_true(advised > 5, advised)
  end)
end)
