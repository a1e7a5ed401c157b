--- The exchange of requests in flight between load balancers: the requests to Memcached, and the answers.
--
--   steelyard:1:in_flight:epoch              the epoch: a number never used before, for EPOCH_S
--   steelyard:1:in_flight:<epoch>            the number of load balancers in it
--   steelyard:1:in_flight:<epoch>:<address>  COUNTER_ZERO + the requests of all of them at the server
--
-- A load balancer sends a counter the change of its own part, and the answer is the sum. Memcached's `ma` does the
-- arithmetic, so no load balancer reads the figures of each other one. The same request asks for all counters; the
-- answer to `mn` at its end comes last.
--
-- The first request after an epoch has expired, by Memcached's clock alone, begins the next one. All counters of a new
-- epoch begin at zero, and each load balancer adds its whole part. So leftovers of a dead load balancer, and errors
-- from lost or repeated requests, are gone after EPOCH_S.
--
-- A counter begins at COUNTER_ZERO, because Memcached's counters do not go below 0; so its length never changes. The
-- answer to `ma` is never longer than a number, whatever is in the key.
--
-- Pure: text goes out and comes in, random numbers are passed in.

local ffi = require "ffi"

local EPOCH_S = 10

-- A counter outlives its epoch long enough for every load balancer to notice the end of the epoch.
local TTL_S = 3 * EPOCH_S

local COUNTER_ZERO = 4294967296

-- Epochs have ten digits. One that comes back within the life of a counter keeps its old sums: 1 in 10^8 epochs.
local FIRST_EPOCH, EPOCHS = 1000000000, 1000000000

-- Memcached's counters have 64 bits.
local MAX_COUNTER = 2 ^ 64

local PREFIX = "steelyard:1:in_flight:"

-- The longest answer to one query.
local ANSWER_BYTES = 64

-- Servers in one request, for changes and for queries each: 0.3 ms of work each. More servers take turns.
local SERVERS_PER_REQUEST = 400

local A, F, N, V, CR, LF, SPACE, ZERO_DIGIT, NINE = string.byte("AFNV\r\n 09", 1, -1)

local _M = { END = "MN\r\n" }
local mt = { __index = _M }


--- Make the exchange of one nginx.
-- @param others core/others_in_flight
-- @param stats  core/peer_stats
function _M.new(others, stats, random)
    return setmetatable({
        others = others, stats = stats, random = random,
        targets = {}, departed = {}, next_asked = 1,
        blocks = {}, -- place of the first server -> the queries of a turn
        epoch = 0, balancers = 0, balancers_before = 0,
        asked = {}, taken_back = 0, -- servers of the request under way; the first ones have departed
    }, mt)
end


--- Take the servers: a list of { address, cell }. The next request takes this nginx's part out of the counters of
-- departed servers. Nothing is known of those any more, and another upstream may still use them.
function _M:take(targets)
    local stays = {}
    for i = 1, #targets do
        stays[targets[i].cell] = targets[i]
    end
    for i = 1, #self.targets do
        local target = self.targets[i]
        if stays[target.cell] ~= target then
            self.departed[#self.departed + 1] = target
            self:forget(target.cell)
        end
    end
    self.targets, self.blocks, self.next_asked = targets, {}, 1
end


--- Forget the others' requests at a server that is not asked for: no answer would correct them.
function _M:forget(cell)
    if self.stats:others(cell) ~= 0 then -- else no memory is touched
        self.stats:set_others(cell, 0)
    end
end


--- Return this nginx's requests in flight at all servers, and whether a counter has to be sent a change. Third, the
-- mean latency of the requests in flight in ms, 0 if it is not known; fourth, when a request ended last, 0 if none
-- did.
function _M:survey(now)
    local stats, others, targets = self.stats, self.others, self.targets
    local total, changed, timed, latency, ended_at = 0, false, 0, 0, 0
    for i = 1, #targets do
        local cell = targets[i].cell
        local own = stats:own(cell)
        total = total + own
        local at = stats:last_at(cell)
        if at > ended_at and at <= now then -- else the clock was set back
            ended_at = at
        end
        changed = changed or own ~= others.sent[cell]
        if own > 0 then
            local its = stats:last_latency(cell)
            if its > 0 then
                timed, latency = timed + own, latency + own * its
            end
        end
    end
    return total, changed, timed > 0 and latency / timed or 0, ended_at
end


--- Return the first two queries of every request: the epoch, and its members.
local function head(self)
    local enters, new_epoch = self.epoch ~= 0 and self.others.shared.is_in == 0, FIRST_EPOCH + self.random(EPOCHS) - 1
    return "ma " .. PREFIX .. "epoch N" .. EPOCH_S .. " J" .. new_epoch .. " D0 v\r\n"
           .. "ma " .. PREFIX .. self.epoch .. (enters and " N" .. TTL_S .. " J1 D1 v\r\n" or " D0 v\r\n")
end


local function key_of(self, target)
    return PREFIX .. self.epoch .. ":" .. target.address
end


--- Return the line that sends a counter a change. On a counter of an unknown name, the same line creates it.
local function change_line(self, target, change)
    return "ma " .. key_of(self, target) .. " N" .. TTL_S .. " J" .. COUNTER_ZERO + change .. " D" .. math.abs(change)
           .. (change > 0 and " MI v\r\n" or " MD v\r\n")
end


--- Return the queries for the servers from one to another, as one text: made once an epoch.
local function queries(self, first, last)
    local block = self.blocks[first]
    if not block then
        local lines = {}
        for i = first, last do
            lines[#lines + 1] = "ma " .. key_of(self, self.targets[i]) .. " D0 v\r\n"
        end
        block = table.concat(lines)
        self.blocks[first] = block
    end
    return block
end


--- Return the request for the epoch and its members alone.
function _M:watch()
    self.asked, self.taken_back = {}, 0
    return head(self) .. "mn\r\n"
end


--- Return the request that sends all changes, and then asks for all servers. A change counts as sent from now on,
-- whatever becomes of the request: a lost one is gone with the epoch, a repeated one would grow until then.
-- @param leaving true: send that nothing is in flight here any more, and ask nothing
function _M:request(leaving)
    if self.epoch == 0 then
        return self:watch()
    end
    local stats, others, targets = self.stats, self.others, self.targets
    local asked, lines = {}, { head(self) }
    local function send_change(target, own)
        local sent = others.sent[target.cell]
        if own ~= sent and #asked < SERVERS_PER_REQUEST then
            others.sent[target.cell] = own
            asked[#asked + 1], lines[#lines + 1] = target, change_line(self, target, own - sent)
        end
    end
    for i = 1, #self.departed do
        send_change(self.departed[i], 0)
    end
    self.taken_back = #asked
    for i = 1, #targets do
        send_change(targets[i], leaving and 0 or stats:own(targets[i].cell))
    end
    if #targets > 0 and not leaving then
        local first = self.next_asked
        local last = math.min(first + SERVERS_PER_REQUEST - 1, #targets)
        table.move(targets, first, last, #asked + 1, asked)
        lines[#lines + 1], self.next_asked = queries(self, first, last), last % #targets + 1
    end
    self.asked, self.departed, lines[#lines + 1] = asked, {}, "mn\r\n"
    return table.concat(lines)
end


--- Return the most bytes of the answer to the last request.
function _M:most_bytes()
    return (#self.asked + 3) * ANSWER_BYTES
end


--- Return how many requests it takes to ask for all servers.
function _M:turns()
    return math.max(1, math.ceil(#self.targets / SERVERS_PER_REQUEST))
end


--- Read the answer at a place: return a number, or false if there is no such counter, and the place of the next answer.
-- If it is neither, return nil and its text. Makes no string for an answer: there are thousands a second.
local function answer_at(text, at)
    local bytes, n, first = ffi.cast("const uint8_t *", text), #text, at
    local value = false
    if n - at > 4 and bytes[at] == V and bytes[at + 1] == A then
        while at < n and bytes[at] ~= LF do
            at = at + 1
        end
        at, value = at + 1, 0
        local from = at
        while at < n and bytes[at] >= ZERO_DIGIT and bytes[at] <= NINE do
            at, value = at + 1, 10 * value + bytes[at] - ZERO_DIGIT
        end
        if at == from or value > MAX_COUNTER then
            at = n -- no number, or none of a counter
        end
        while at < n and bytes[at] == SPACE do
            at = at + 1
        end
    elseif n - at > 3 and bytes[at] == N and bytes[at + 1] == F then
        at = at + 2
    else
        at = n
    end
    if at + 1 < n and bytes[at] == CR and bytes[at + 1] == LF then
        return value, at + 2
    end
    return nil, string.match(text, "^[^\r]+", first + 1) or "an answer that ends too early"
end


--- Take the epoch from an answer; return whether it is a new one for this nginx.
local function enter(self, epoch)
    if epoch == self.epoch then
        return false
    end
    self.balancers_before, self.balancers, self.epoch, self.blocks = self.balancers, 0, epoch, {}
    local shared = self.others.shared
    if shared.epoch ~= epoch then -- else the previous worker was in it, and `sent` holds its parts
        shared.epoch, shared.is_in = epoch, 0
        for _, targets in ipairs({ self.targets, self.departed }) do
            for i = 1, #targets do
                self.others.sent[targets[i].cell] = 0
            end
        end
    end
    return true
end


--- Take the answer to the last request.
-- @param text without END
-- @return "read": the requests of the others are known; "epoch": another epoch has begun, ask again at once; or nil
--        and what was refused: then nothing is known
function _M:answer(text)
    local epoch, at = answer_at(text, 0)
    if not epoch then
        return nil, epoch == false and "there is no epoch" or at
    elseif enter(self, epoch) then
        return "epoch"
    end
    local balancers, value
    balancers, at = answer_at(text, at)
    if balancers == nil then
        return nil, at
    end
    self.others.shared.is_in = balancers and 1 or 0 -- else the counter was evicted, and is made again
    self.balancers = balancers or 0
    local stats, others, asked = self.stats, self.others, self.asked
    for i = 1, #asked do
        value, at = answer_at(text, at)
        if value == nil then
            return nil, at
        end
        if i > self.taken_back then
            local cell = asked[i].cell
            stats:set_others(cell, value and others:of_sum(cell, value - COUNTER_ZERO) or 0)
        end
    end
    return "read"
end


--- Forget the epoch: another Memcached is asked, or this one has lost it.
function _M:lose()
    self.epoch, self.balancers, self.balancers_before = 0, 0, 0
end


--- Return the number of load balancers, this one included; 0 if it is not known. Those of the last epoch count until
-- they have had time to enter this one.
function _M:count()
    return math.max(self.balancers, self.balancers_before)
end


return _M
