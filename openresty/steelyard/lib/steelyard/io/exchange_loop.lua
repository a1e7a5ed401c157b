--- The loop in which one worker tells other load balancers what this nginx has in flight, and learns what they have.
--
-- One request to Memcached each time, in one write, and one answer (core/in_flight_exchange); how often says
-- core/exchange_pace, by the CPU time that it took. Nothing here touches a request: what is learnt goes into the
-- memory that the workers share. Where an exchange fails, picks go by what this nginx has in flight, as without it.
--
-- All load balancers must meet at one Memcached: of several it is the first by name that answers, whatever the order
-- in which they are declared.

local backoff = require "steelyard.io.backoff"
local clock = require "steelyard.io.clock"
local exchange_pace = require "steelyard.core.exchange_pace"
local in_flight_exchange = require "steelyard.core.in_flight_exchange"
local job_lock = require "steelyard.io.job_lock"
local peer_cells = require "steelyard.core.peer_cells"

local JOB = "exchange"

-- Of figures that are a tenth of a second old, few are worth anything.
local TIMEOUT_MS = 100

-- Of a timer: what nginx keeps for it grows as long as it runs.
local ROUNDS = 500

-- After a failure. A Memcached that refuses costs a connection each time.
local AGAIN_S = 1

-- The least that nginx's timers know.
local AT_ONCE_S = 0.001

-- Between two timers.
local KEEP_MS = 10000

-- What the kernel and nginx do for an exchange, and no clock in here sees: waking up, and the way through loopback.
local UNSEEN_S = 0.00005

local _M = {}
local mt = { __index = _M }


--- Make the loop of a worker. The workers must share memory.
-- @param parts dict, store (io/table_store), stats (core/peer_stats), others (core/others_in_flight), random,
--   memcached: its servers, cpu_share: how much of a CPU the loop may take, and upstreams: function() that
--   returns the upstreams of now, by name
function _M.new(parts)
    local servers = { unpack(parts.memcached) }
    table.sort(servers, function(a, b) return a.name < b.name end)
    return setmetatable({
        dict = parts.dict, store = parts.store, others = parts.others, servers = servers,
        exchange = in_flight_exchange.new(parts.others, parts.stats, parts.random),
        pace = exchange_pace.new(parts.cpu_share), upstreams = parts.upstreams,
        by_cell = {}, known_upstreams = nil, addresses = {}, -- what the targets were made of
        socket = nil, server = nil, telling = false,
    }, mt)
end


--- Whether anybody picks by what is in flight there. Servers that only nginx.conf names may be others to others.
local function wants(live)
    return live.picker ~= nil and (live.picker.by_in_flight or live.limited_of_all)
           and live.rung ~= "bootstrap" and live.rung ~= "none"
end


--- Take the servers of all upstreams anew where they have changed.
local function take_targets(self)
    local addresses, same, upstreams = self.addresses, true, self.upstreams()
    self.pace.limited = false
    for name, live in pairs(upstreams) do
        self.pace.limited = self.pace.limited or live.limited_of_all
        same = same and addresses[name] == (wants(live) and live.addresses)
    end
    if same and self.known_upstreams == upstreams then
        return
    end
    local targets, by_cell, before = {}, {}, self.by_cell
    addresses = {}
    for name, live in pairs(upstreams) do
        addresses[name] = wants(live) and live.addresses
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
end


--- Connect to the first Memcached that has meta commands; true, or nil and what each of them said.
local function connect(self)
    local failures = {}
    for i = 1, #self.servers do
        local server = self.servers[i]
        local socket, err = backoff.attempt("exchange " .. server.name, function()
            local made = ngx.socket.tcp()
            made:settimeout(TIMEOUT_MS)
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
        end)
        if socket then
            if self.server ~= server then
                self.exchange:lose()
            end
            self.socket, self.server = socket, server
            return true
        end
        failures[i] = server.name .. ": " .. tostring(err)
    end
    return nil, table.concat(failures, "; ")
end


--- Send a request and take its answer, as exchange:answer() does.
-- @param began what the thread's CPU time was when the round began
local function ask(self, text, began)
    local socket = self.socket
    local _, err = socket:send(text)
    local sent_at, sent_cpu, answer = clock.monotonic(), clock.thread_cpu(), nil
    if not err then
        local most, read = self.exchange:most_bytes(), socket:receiveuntil(in_flight_exchange.END)
        answer, err = read(most)
        if answer and read(1) then
            answer, err = nil, "an answer without an end"
        end
    end
    local came_at, came_cpu = clock.monotonic(), clock.thread_cpu()
    if not answer then
        return nil, err
    end
    local verdict, refused = self.exchange:answer(answer)
    self.pace:spent(sent_cpu - began + clock.thread_cpu() - came_cpu + UNSEEN_S, came_at - sent_at)
    return verdict, refused
end


--- What is to be sent in a state. What it tells counts as told, so there must be a way to send it.
local function request_in(self, state)
    local told = self.telling
    self.telling = state == "on" or state == "steady"
    if self.telling then
        return self.exchange:request(false)
    end
    return told and self.exchange:request(true) or self.exchange:watch()
end


--- Note how it stands for the pages, and a failure in the log when that begins or ends.
local function note(self, state, err)
    if state ~= self.noted or err ~= self.noted_err then
        self.dict:set("exchange/state", state)
        self.dict:set("exchange/error", err or "")
        self.noted, self.noted_err = state, err
    end
    if state ~= "at rest" and self.store:outcome_changed("!exchange", err and "failed" or "ok") then
        ngx.log(err and ngx.WARN or ngx.NOTICE, "steelyard: what is in flight is ", err and "not " or "",
                "exchanged with other load balancers", err and " (" .. err .. "); picks go by this nginx's own" or "")
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


--- One round; returns in how many seconds the next is due.
local function round(self)
    local began, now, exchange, pace = clock.thread_cpu(), ngx.now(), self.exchange, self.pace
    take_targets(self)
    local state, wait_s = pace:next(now, exchange:count(), exchange:turns(), exchange:survey(now))
    if state == "at rest" then
        note(self, state)
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
        return fail(self, self.server.name .. ": " .. tostring(err))
    end
    note(self, state)
    if verdict == "epoch" then
        return AT_ONCE_S
    elseif self.telling then
        self.others:read(now, pace:age_s(exchange:turns()))
    else
        self.others:forget()
    end
    return wait_s
end


--- Take back what was told, before this worker goes: its successors tell what they have themselves.
local function leave(self)
    if self.telling and self.socket then
        ask(self, self.exchange:request(true), clock.thread_cpu())
    end
    self.others:forget()
end


--- Go round for a while; of a worker that may hold the job no longer, or leaves, not to the end.
local function run(self, is_ours)
    self.socket = nil -- of a timer that ended by an error: it is of no use in this one
    for _ = 1, ROUNDS do
        ngx.sleep(round(self))
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
    self.others:look(ngx.now())
    job_lock.hold(self.dict, JOB, function(is_ours)
        run(self, is_ours)
    end)
end


return _M
