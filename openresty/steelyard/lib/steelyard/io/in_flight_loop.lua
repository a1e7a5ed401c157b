--- The loop in which one worker exchanges requests in flight with other load balancers.
--
-- Each round is one request to Memcached, in one write, and one answer (core/in_flight_messages). core/exchange_pace
-- sets the time between rounds, by their CPU time. The loop touches no request: the results go into the memory that
-- the workers share. After a failed exchange, picks go by this nginx's own requests, as without the loop.
--
-- It says nothing to Memcached while no table names another load balancer.
--
-- All load balancers must meet at one Memcached. Among several it is the first by name that answers, whatever the order
-- of their declaration. A round has one deadline: a Memcached that drips its answer counts as one that does not answer.

local backoff = require "steelyard.io.backoff"
local clock = require "steelyard.io.clock"
local deadline = require "steelyard.io.deadline"
local exchange_pace = require "steelyard.core.exchange_pace"
local in_flight_messages = require "steelyard.core.in_flight_messages"
local job_lock = require "steelyard.io.job_lock"
local peer_cells = require "steelyard.core.peer_cells"
local weight_table = require "steelyard.core.weight_table"

local JOB = "exchange"

-- For a whole connect, and for a whole round: figures that are a tenth of a second old are worth little.
local DEADLINE_S = 0.1

-- Rounds of one timer: its memory in nginx grows while it runs.
local ROUNDS = 500

-- How often the tables are looked at while none names another load balancer.
local ALONE_S = 1

-- The pause after a failure: a Memcached that refuses costs a connection each time.
local AGAIN_S = 1

-- A Memcached that fails in this many rounds in a row, without one that goes well, is left out for AVOID_S if there is
-- another one. It answers when it is connected to, so `connect` would choose it each time.
local AVOID_AFTER, AVOID_S = 2, 30

-- The shortest timer of nginx.
local AT_ONCE_S = 0.001

-- How long the connection is kept between two timers.
local KEEP_MS = 10000

-- CPU time of the kernel and of nginx for a round that the clocks here do not measure: waking up, and loopback.
local UNMEASURED_S = 0.00005

local _M = {}
local mt = { __index = _M }


--- Make the loop of a worker. The workers must share memory.
-- @param parts dict, store (io/table_store), stats (core/peer_stats), others (core/others_in_flight), random,
--   lb: this load balancer's name, memcached: its servers, cpu_share: how much of a CPU the loop may take, and
--   upstreams: function() that returns the upstreams of now, by name
function _M.new(parts)
    local servers = { unpack(parts.memcached) }
    table.sort(servers, function(a, b) return a.name < b.name end)
    return setmetatable({
        dict = parts.dict, store = parts.store, others = parts.others, lb = parts.lb, servers = servers,
        exchange = in_flight_messages.new(parts.others, parts.stats, parts.random),
        pace = exchange_pace.new(parts.cpu_share), upstreams = parts.upstreams,
        by_cell = {}, known_upstreams = nil, addresses = {}, -- what the targets were made of
        socket = nil, server = nil, sharing = false,
        failures = 0, -- rounds in a row that failed at `server`
    }, mt)
end


--- The cells of an upstream's servers by address, if its picks go by requests in flight and other load balancers send
-- requests there; else nil. Servers of nginx.conf alone are left out: other load balancers may have others.
local function shared_addresses(self, live)
    local picks_by_in_flight = live.picker ~= nil and (live.picker.by_in_flight or live.limited_of_all)
    if picks_by_in_flight and live.rung ~= "bootstrap" and live.rung ~= "none"
       and weight_table.names_another(live.known, self.lb) then
        return live.addresses
    end
end


--- Update the servers of all upstreams if they have changed.
local function take_targets(self)
    local addresses, same, upstreams = self.addresses, true, self.upstreams()
    self.pace.limited = false
    for name, live in pairs(upstreams) do
        local shared = shared_addresses(self, live)
        self.pace.limited = self.pace.limited or shared ~= nil and live.limited_of_all
        same = same and addresses[name] == shared
    end
    if same and self.known_upstreams == upstreams then
        return
    end
    local targets, by_cell, before = {}, {}, self.by_cell
    addresses = {}
    for name, live in pairs(upstreams) do
        addresses[name] = shared_addresses(self, live)
        for address, cell in pairs(addresses[name] or {}) do
            if cell ~= peer_cells.NONE and not by_cell[cell] then
                local known = before[cell]
                by_cell[cell] = known and known.address == address and known or { address = address, cell = cell }
                targets[#targets + 1] = by_cell[cell]
            end
        end
    end
    self.by_cell, self.addresses, self.known_upstreams = by_cell, addresses, upstreams
    self.exchange:take(targets)
    for name, live in pairs(upstreams) do
        for _, cell in pairs(not addresses[name] and live.addresses or {}) do
            if not by_cell[cell] then
                self.exchange:forget(cell) -- a previous worker may have asked for it
            end
        end
    end
end


--- Connect to one Memcached, and ask whether it has meta commands. Return the connection, or nil and the reason.
local function connect_to(server)
    local made = ngx.socket.tcp()
    made:settimeout(DEADLINE_S * 1000)
    local ok, why = made:connect(server.host, server.port)
    local answer
    if ok then
        ok, why = made:send("mn\r\n")
    end
    if ok then
        answer, why = made:receive()
    end
    if answer == "MN" then
        return made
    end
    made:close()
    return nil, answer and "it has no meta commands (" .. answer .. "): Memcached 1.6 or later is needed" or why
end


local function backoff_name(server)
    return "exchange " .. server.name
end


--- Connect to the first Memcached with meta commands. Return true, or nil and the error of each server.
local function connect(self)
    local failures = {}
    for i = 1, #self.servers do
        local server = self.servers[i]
        local socket, err = backoff.attempt(backoff_name(server), function()
            return deadline.within(DEADLINE_S, connect_to, server)
        end)
        if socket then
            if self.server ~= server then
                self.exchange:lose()
                self.failures = 0
            end
            self.socket, self.server = socket, server
            if self.store:outcome_changed("!exchange/server", server.name) and failures[1] then
                ngx.log(ngx.WARN, "steelyard: requests in flight are exchanged at ", server.name, ", because earlier ",
                        "Memcached servers fail: ", table.concat(failures, "; "))
            end
            return true
        end
        failures[i] = server.name .. ": " .. tostring(err)
    end
    return nil, table.concat(failures, "; ")
end


--- Read an answer up to its end, which must come before a time. The first read is made in any case: a worker that was
-- busy finds the answer there.
local function receive(self, until_s)
    local socket, most, text, ending = self.socket, self.exchange:most_bytes(), "", in_flight_messages.END
    repeat
        socket:settimeout(math.max(1, (until_s - clock.monotonic()) * 1000))
        local piece, err = socket:receiveany(most + 1 - #text)
        if not piece then
            return nil, err == "timeout" and deadline.exceeded(DEADLINE_S) or err
        end
        local from = math.max(1, #text - #ending + 2)
        text = text .. piece
        local first, last = string.find(text, ending, from, true)
        if last and last == #text then
            return string.sub(text, 1, first - 1)
        elseif last or #text > most then
            return nil, "an answer without an end"
        end
    until clock.monotonic() >= until_s
    return nil, deadline.exceeded(DEADLINE_S)
end


--- Send a request and take its answer, as exchange:answer() does.
-- @param began the thread's CPU time when the round began
local function ask(self, text, began)
    self.socket:settimeout(DEADLINE_S * 1000)
    local until_s = clock.monotonic() + DEADLINE_S
    local _, err = self.socket:send(text)
    local sent_at, sent_cpu, answer = clock.monotonic(), clock.thread_cpu(), nil
    if not err then
        answer, err = receive(self, until_s)
    end
    local answered_at, answered_cpu = clock.monotonic(), clock.thread_cpu()
    if not answer then
        return nil, err
    end
    local verdict, refused = self.exchange:answer(answer)
    self.pace:spent(sent_cpu - began + clock.thread_cpu() - answered_cpu + UNMEASURED_S, answered_at - sent_at)
    return verdict, refused
end


--- Make the request of a round. Its figures count as sent, so call it only when it can be sent.
local function request_in(self, state)
    local was_sharing = self.sharing
    self.sharing = state == "on" or state == "steady"
    if self.sharing then
        return self.exchange:request(false)
    elseif was_sharing then
        return self.exchange:request(true) -- takes the figures back
    end
    return self.exchange:watch()
end


--- Note the state for the pages.
local function show(self, state, err)
    if state ~= self.noted or err ~= self.noted_err then
        self.dict:set("exchange/state", state)
        self.dict:set("exchange/error", err or "")
        self.noted, self.noted_err = state, err
    end
end


--- Note the state of an exchange, and log when a failure begins or ends.
local function note(self, state, err)
    show(self, state, err)
    if self.store:outcome_changed("!exchange", err and "failed" or "ok") then
        if err then
            ngx.log(ngx.WARN, "steelyard: requests in flight are not exchanged with other load balancers (", err,
                    "); picks go by this nginx's own")
        else
            ngx.log(ngx.NOTICE, "steelyard: requests in flight are exchanged with other load balancers")
        end
    end
end


local function fail(self, err)
    if self.socket then
        self.socket:close()
        self.socket = nil
    end
    self.others:forget()
    self.dict:incr("exchange_errors", 1, 0)
    note(self, "failed", err)
    return AGAIN_S
end


--- Do one round; return in how many seconds the next one is due.
local function round(self)
    local began, now, exchange, pace = clock.thread_cpu(), clock.now(), self.exchange, self.pace
    take_targets(self)
    local state, wait_s = pace:next(now, exchange:count(), exchange:turns(), exchange:survey(now))
    if next(self.addresses) == nil then
        if not self.sharing then
            local shared = self.others.shared
            shared.balancers, shared.round_s, shared.cpu_share = 0, 0, 0
            show(self, "alone")
            return ALONE_S
        end
        state = "alone" -- once more, to take the figures back
    elseif state == "at rest" then
        show(self, state)
        return wait_s
    end
    local ok, err = self.socket, nil
    if not ok then
        ok, err = connect(self)
    end
    if not ok then
        return fail(self, err)
    end
    local shared = self.others.shared
    shared.balancers, shared.round_s, shared.cpu_share = exchange:count(), wait_s, pace.cost_s / wait_s
    local verdict
    verdict, err = ask(self, request_in(self, state), began)
    if not verdict then
        self.failures = self.failures + 1
        if self.failures >= AVOID_AFTER and #self.servers > 1 then
            backoff.avoid(backoff_name(self.server), tostring(err), AVOID_S)
        end
        return fail(self, self.server.name .. ": " .. tostring(err))
    end
    self.failures = 0
    note(self, state)
    if verdict == "epoch" then
        return AT_ONCE_S
    elseif self.sharing then
        self.others:read(now, pace:age_s(exchange:turns()))
    else
        self.others:forget()
    end
    return wait_s
end


--- Take back this worker's figures before it leaves: its successors send their own.
local function leave(self)
    if self.sharing and self.socket then
        ask(self, self.exchange:request(true), clock.thread_cpu())
    end
    self.others:forget()
end


local function one_round(self)
    local wait_s = round(self)
    self.others.shared.next_at = clock.now() + wait_s
    return wait_s
end


--- Do up to ROUNDS rounds, fewer if this worker leaves or another one has the job.
local function run(self, is_ours)
    self.socket = nil -- a socket of an earlier timer, which ended by an error, cannot be used here
    for _ = 1, ROUNDS do
        ngx.sleep(one_round(self))
        if ngx.worker.exiting() then
            leave(self)
            break
        elseif not is_ours() then
            break
        end
    end
    if self.socket then
        self.socket:setkeepalive(KEEP_MS, 1)
        self.socket = nil
    end
end


--- Note in this worker whether there are figures, and have one worker exchange them. Call it every tenth of a second.
function _M:tick()
    self.others:look(clock.now())
    job_lock.hold(self.dict, JOB, function(is_ours)
        run(self, is_ours)
    end)
end


return _M
