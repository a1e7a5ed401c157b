--- The exchange of what load balancers have in flight: what one asks of Memcached, and what it learns.
--
--   steelyard:1:in_flight:epoch              the epoch: a number that nobody had before, for EPOCH_S
--   steelyard:1:in_flight:<epoch>            how many load balancers are in it
--   steelyard:1:in_flight:<epoch>:<address>  ZERO + what all of them have in flight at the server
--
-- A counter is told by how much one's own part of it has changed, and answers the sum: Memcached's `ma` is
-- arithmetic, so no load balancer reads what each of the others wrote. All are asked, too.
-- It is one request; `mn` at its end is answered last.
--
-- Whoever asks for the epoch when its time is over begins the next, by Memcached's clock and nobody else's. In a new
-- one all counters begin anew, and each load balancer puts in all that it has: so what one left behind that died,
-- and whatever a word that was lost or came twice has done, is gone after EPOCH_S.
--
-- A counter begins at ZERO, because Memcached's do not go below 0; and its length never changes. `ma` answers
-- nothing that is longer than a number, whoever wrote what to the key.
--
-- Pure: text goes out and comes in, random numbers are passed in.

local ffi = require "ffi"

local EPOCH_S = 10

-- A counter outlives its epoch by as long as a load balancer may need to see that it is over.
local TTL_S = 3 * EPOCH_S

local ZERO = 4294967296

-- Of ten digits; one that comes back within a counter's life has them already: 1 in 10^8 epochs.
local FIRST_EPOCH, EPOCHS = 1000000000, 1000000000

local PREFIX = "steelyard:1:in_flight:"

-- An answer is no longer than this, and a request's no longer than so many of them.
local ANSWER_BYTES = 64

-- Servers that are asked in one request, and that are told a change: 0.3 ms of work each. Of more, in turns.
local MOST = 400

local A, F, N, V, CR, LF, SPACE, ZERO_DIGIT, NINE = string.byte("AFNV\r\n 09", 1, -1)

local _M = { END = "MN\r\n" }
local mt = { __index = _M }


--- Make the exchange of one nginx.
-- @param others core/others_in_flight
-- @param stats  core/peer_stats
function _M.new(others, stats, random)
    return setmetatable({
        others = others, stats = stats, random = random,
        targets = {}, gone = {}, next_asked = 1,
        blocks = {}, -- the place of its first server -> the questions of a turn
        epoch = 0, balancers = 0, balancers_before = 0,
        asked = {}, -- by the request that is under way
    }, mt)
end


--- Take the servers: a list of { address, cell }. The counters of those that are gone are told so by the next request.
function _M:take(targets)
    local stays = {}
    for i = 1, #targets do
        stays[targets[i].cell] = targets[i]
    end
    for i = 1, #self.targets do
        local target = self.targets[i]
        if stays[target.cell] ~= target then
            self.gone[#self.gone + 1] = target
        end
    end
    self.targets, self.blocks, self.next_asked = targets, {}, 1
end


--- What this nginx has in flight: over all servers; whether a server's counter is to be told a change; the mean latency
-- of what is in flight, in ms, 0 when it is not known; and when a request ended last, 0 when none did.
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
        changed = changed or own ~= others.told[cell]
        if own > 0 then
            local its = stats:last_latency(cell)
            if its > 0 then
                timed, latency = timed + own, latency + own * its
            end
        end
    end
    return total, changed, timed > 0 and latency / timed or 0, ended_at
end


--- The first two questions of every request: the epoch, and who is in it.
local function head(self)
    local enters, new_epoch = self.epoch ~= 0 and self.others.shared.is_in == 0, FIRST_EPOCH + self.random(EPOCHS) - 1
    return "ma " .. PREFIX .. "epoch N" .. EPOCH_S .. " J" .. new_epoch .. " D0 v\r\n"
           .. "ma " .. PREFIX .. self.epoch .. (enters and " N" .. TTL_S .. " J1 D1 v\r\n" or " D0 v\r\n")
end


local function key_of(self, target)
    return PREFIX .. self.epoch .. ":" .. target.address
end


--- Tell a counter a change; the words of a counter that nobody has told anything yet are those that make it.
local function telling(self, target, change)
    return "ma " .. key_of(self, target) .. " N" .. TTL_S .. " J" .. ZERO + change .. " D" .. math.abs(change)
           .. (change > 0 and " MI v\r\n" or " MD v\r\n")
end


--- The questions of so many servers from one on, as one text: made once an epoch.
local function asking(self, first, last)
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


--- The request that only asks for the epoch and who is in it.
function _M:watch()
    self.asked = {}
    return head(self) .. "mn\r\n"
end


--- The request that tells what has changed, and then asks for all servers. A change counts as told from now on,
-- whatever becomes of the request: one that is lost is gone with the epoch, one that is repeated would grow until then.
-- @param leaving true: tell that nothing is in flight here any more, and ask nothing
function _M:request(leaving)
    if self.epoch == 0 then
        return self:watch()
    end
    local stats, others, targets = self.stats, self.others, self.targets
    local asked, lines = {}, { head(self) }
    local function tell(target, own)
        local told = others.told[target.cell]
        if own ~= told and #asked < MOST then
            others.told[target.cell] = own
            asked[#asked + 1], lines[#lines + 1] = target, telling(self, target, own - told)
        end
    end
    for i = 1, #self.gone do
        tell(self.gone[i], 0)
    end
    for i = 1, #targets do
        tell(targets[i], leaving and 0 or stats:own(targets[i].cell))
    end
    if #targets > 0 and not leaving then
        local first = self.next_asked
        local last = math.min(first + MOST - 1, #targets)
        table.move(targets, first, last, #asked + 1, asked)
        lines[#lines + 1], self.next_asked = asking(self, first, last), last % #targets + 1
    end
    self.asked, self.gone, lines[#lines + 1] = asked, {}, "mn\r\n"
    return table.concat(lines)
end


--- How many bytes the answer to the last request may have.
function _M:most_bytes()
    return (#self.asked + 3) * ANSWER_BYTES
end


--- How many requests it takes to ask for all servers.
function _M:turns()
    return math.max(1, math.ceil(#self.targets / MOST))
end


--- Read the answer at a place: a number, or false (there is no such counter); and where the next one is. Nil and what
-- it says. Without a string for each: there are thousands a second.
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
        if at == from then
            at = n -- no number
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


--- Take what was learnt of the epoch; tells whether it is another one than this nginx is in.
local function enter(self, epoch)
    if epoch == self.epoch then
        return false
    end
    self.balancers_before, self.balancers, self.epoch, self.blocks = self.balancers, 0, epoch, {}
    local shared = self.others.shared
    if shared.epoch ~= epoch then -- else the worker before this one was in it, and told what stands there
        shared.epoch, shared.is_in = epoch, 0
        for _, targets in ipairs({ self.targets, self.gone }) do
            for i = 1, #targets do
                self.others.told[targets[i].cell] = 0
            end
        end
    end
    return true
end


--- Take the answer to the last request.
-- @param text without END
-- @return "read": what the others have in flight is known; "epoch": another epoch has begun, ask again at once; or
--         nil and what was refused: then nothing is known
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
    self.others.shared.is_in = balancers and 1 or 0 -- else the count was thrown out, and is made anew
    self.balancers = balancers or 0
    local stats, others, asked = self.stats, self.others, self.asked
    for i = 1, #asked do
        value, at = answer_at(text, at)
        if value == nil then
            return nil, at
        end
        local cell = asked[i].cell
        stats:set_others(cell, value and others:of_sum(cell, value - ZERO) or 0)
    end
    return "read"
end


--- Forget the epoch: another Memcached is asked, or the one of before has lost it.
function _M:lose()
    self.epoch, self.balancers, self.balancers_before = 0, 0, 0
end


--- How many load balancers there are, this one included; those of the last epoch count until it is certain that they
-- do not come to this one. 0 when it is not known.
function _M:count()
    return math.max(self.balancers, self.balancers_before)
end


return _M
