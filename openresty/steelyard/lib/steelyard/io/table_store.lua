--- The weight table of each upstream in the shared dict, with the outcome of fetching it.
--
--   table/<upstream>     the JSON of the last good table, without its signature
--   order/<upstream>     its term.generation
--   source/<upstream>    its source: `memcached host:port`, `controller URL`, `saved`
--   version/<upstream>   raised at each change; workers compare it
--   seen/<upstream>      when the last new table arrived, by the monotonic clock: the time of day may be stepped
--   outcome/<upstream>   the outcome of the last fetch: ok, absent, or the reason for a refusal
--   refused/<upstream>/<reason>   refusals for this reason; `refusal/<upstream>` has the last detail
--   doubtful/<upstream>  the table is the first of all, and no controller has confirmed it yet
--   unsaved/<upstream>   the table is not on disk yet
--
-- The dict outlives a reload, and so does a table. A text is filled up with spaces to the size that the dict gives it
-- anyway. So weights that change, with a digit more here and there, are written in place and always find room.

local number = require "steelyard.core.number"
local shared_dict = require "steelyard.io.shared_dict"
local weight_table = require "steelyard.core.weight_table"

local trusted = number.trusted

-- The dict gives out powers of two up to half a page, and whole pages. A value shares them with its key and its place
-- in the dict's tree.
local PAGE, HALF, BESIDE = 4096, 2048, 192

local SPACE = string.byte(" ")

local _M = {}
local mt = { __index = _M }


-- The reasons of the decoders, and of io/table_acceptance.
_M.REASONS = {
    "too_large", "not_json", "not_object", "version", "missing", "type", "range", "name",
    "upstream",  -- a table of another upstream under this one's key
    "older",     -- its (term, generation) is smaller than that of the last table
    "unsigned",  -- a key is set, and the value has no signature
    "signature", -- a wrong signature
    "signed",    -- it has a signature, and no key is set
    "replayed",  -- signed long ago, and there is no other table to compare it with
    "no_room",   -- the shared dict is too small for it
}

-- The `source` of the table on disk.
_M.SAVED = "saved"


-- The keys of an upstream, besides `refused/`.
local KEPT = {
    "table/", "order/", "source/", "version/", "seen/", "refusal/", "doubtful/", "unsaved/",
    "outcome/", "outcome/!rung/", "outcome/!check/", "outcome/!cells/",
}


-- Those to keep if the dict is replaced by one of another size. The text is the first: without it the others are of no
-- use.
local WORTH_KEEPING = { "table/", "order/", "source/", "seen/", "doubtful/", "unsaved/", "version/" }


--- Append the keys of a table to a list, for a new dict.
function _M.add_keys(keys, upstream)
    for i = 1, #WORTH_KEEPING do
        keys[#keys + 1] = WORTH_KEEPING[i] .. upstream
    end
end


--- Open the store in a lua_shared_dict.
function _M.new(dict)
    return setmetatable({ dict = dict, decoded = {}, unstored = {} }, mt)
end


local function key_of(upstream)
    return "table/" .. upstream
end


--- The JSON of the table; nil if there is none yet.
function _M:table_text(upstream)
    local value = self.dict:get(key_of(upstream))
    local last = value and #value
    while last and last > 0 and string.byte(value, last) == SPACE do
        last = last - 1
    end
    return value and string.sub(value, 1, last)
end


--- The bytes to use for a text. A text that became shorter keeps its place, unless half of it is free.
local function size_of(text, key, size_before)
    if size_before and #text <= size_before and 2 * #text > size_before then
        return size_before
    end
    local bytes, whole = #text + #key + BESIDE, 256
    if bytes > HALF then
        whole = math.ceil(bytes / PAGE) * PAGE
    end
    while whole < bytes do
        whole = 2 * whole
    end
    return whole - #key - BESIDE
end


--- Write the text of a table; nil and the reason if it finds no room. Then the text before it is written again.
local function write_text(self, upstream, text)
    local key, dict = key_of(upstream), self.dict
    local before = dict:get(key)
    local padding = size_of(text, key, before and #before) - #text
    local ok, err = dict.bulk:set(key, text .. string.rep(" ", padding))
    if not ok then
        local last = self.decoded[upstream]
        before = before or last and last.text -- another one may have found no room before
        if before then
            dict.bulk:set(key, before)
        end
    end
    return ok, err
end


--- The decoded table; nil if there is none yet. Each worker decodes a text once, and calls `breathe` meanwhile.
function _M:table(upstream, breathe)
    local text = self:table_text(upstream)
    local last = self.decoded[upstream]
    if not text or last and last.text == text then
        return text and last.table
    end
    return self:keep(upstream, text, weight_table.decode(text, { breathe = breathe, previous = last and last.table }))
end


--- Keep the decoded table of a text; return the table.
function _M:keep(upstream, text, decoded)
    self.decoded[upstream] = decoded and { text = text, table = decoded }
    return decoded
end


--- The term and generation of the table; nil if there is none yet.
function _M:term_and_generation(upstream)
    local term, generation = string.match(self.dict:get("order/" .. upstream) or "", "^(%d+)%.(%d+)$")
    return term and { term = trusted(term), generation = trusted(generation) }
end


function _M:version(upstream)
    return self.dict:get("version/" .. upstream) or 0
end


--- Publish a table to all workers. The text is written first, so a worker that sees the new version also finds the new
-- text, or an even newer one.
-- @param version a table with term and generation
-- @param source  its source, in words
-- @param now_s   by the monotonic clock
function _M:publish(upstream, text, version, source, now_s)
    local dict = self.dict
    local ok, err = write_text(self, upstream, text)
    -- All of one length, to be written in place.
    local order = string.format("%016.0f.%016.0f", version.term, version.generation)
    ok, err = ok and dict:set("order/" .. upstream, order), err
    if not ok then
        return nil, err or shared_dict.FULL
    end
    dict:set("source/" .. upstream, source)
    dict:set("seen/" .. upstream, now_s)
    return dict:incr("version/" .. upstream, 1, 0)
end


--- Forget an upstream that is no longer served.
function _M:forget(upstream)
    self.decoded[upstream] = nil
    for _, what in ipairs(KEPT) do
        self.dict:delete(what .. upstream)
    end
    for _, reason in ipairs(_M.REASONS) do
        self.dict:delete("refused/" .. upstream .. "/" .. reason)
    end
end


--- When the last new table arrived, by the monotonic clock; nil if none ever did.
function _M:arrived_at(upstream)
    return self.dict:get("seen/" .. upstream)
end


--- The source of the table; nil if there is none yet.
function _M:source(upstream)
    return self.dict:get("source/" .. upstream)
end


--- Whether the table is the one from disk: none was fetched since nginx started.
function _M:from_disk(upstream)
    return self:source(upstream) == _M.SAVED
end


--- Set a value; return whether it changed. If workers start together, one of them gets true. Without room in the dict,
-- each worker gets true once.
local function changed(self, key, value)
    local dict, unstored = self.dict, self.unstored
    local before = dict:get(key)
    if before == nil then
        before = unstored[key]
    end
    if before == value then
        return false
    end
    local ok, err = dict:add(key, value)
    if not ok and err ~= shared_dict.FULL then
        ok = dict:get(key) == value
        if ok then
            return false -- another worker was faster
        end
        ok = dict:set(key, value)
    end
    unstored[key] = not ok and value or nil
    return true
end


--- Note the outcome of a fetch; return whether it changed.
function _M:outcome_changed(upstream, outcome)
    return changed(self, "outcome/" .. upstream, outcome)
end


--- Count a refused value.
function _M:count_refused(upstream, reason, detail)
    self.dict:incr("refused/" .. upstream .. "/" .. reason, 1, 0)
    self.dict:set("refusal/" .. upstream, reason .. ": " .. detail)
end


--- For the status page: refusals by reason, the last refusal, and the last outcome.
function _M:refusals(upstream)
    local counts = {}
    for _, reason in ipairs(_M.REASONS) do
        counts[reason] = self.dict:get("refused/" .. upstream .. "/" .. reason) or 0
    end
    return counts, self.dict:get("refusal/" .. upstream), self.dict:get("outcome/" .. upstream)
end


--- Count an error of a kind: a `fetch` that reached no Memcached, or a `controller` that did not answer when needed.
function _M:count_error(kind, err)
    self.dict:incr(kind .. "_errors", 1, 0)
    self.dict:set(kind .. "_error", err)
end


--- The number of errors of a kind, and the last one.
function _M:errors(kind)
    return self.dict:get(kind .. "_errors") or 0, self.dict:get(kind .. "_error")
end


--- Mark a table, or remove its mark: `unsaved`, it is not on disk yet; `doubtful`, it may be an old one. A first table
-- is doubtful, because there is none to compare it with.
function _M:mark(upstream, what, holds)
    self.dict:set(what .. "/" .. upstream, holds or nil)
end


--- Whether a table has this mark.
function _M:is(upstream, what)
    return self.dict:get(what .. "/" .. upstream) == true
end


--- Note why tables cannot be saved, nil if they can; return whether that changed.
function _M:saved_error_changed(err)
    if err then
        return changed(self, "saved_error", err)
    end
    local had_error = self:saved_error() ~= nil
    self.dict:delete("saved_error")
    return had_error
end


--- Why tables cannot be saved; nil if they can.
function _M:saved_error()
    return self.dict:get("saved_error")
end


return _M
