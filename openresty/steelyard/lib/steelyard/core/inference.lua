--- What a request of an OpenAI-style API, and its answer, say of its work: tokens, and whose prefix may be cached.
--
--   cost = input + OUTPUT * output    in tokens: an estimate before, what the answer's `usage` says after
--
-- Pure.

local json = require "steelyard.core.json"

local find, match, max, min, sub = string.find, string.match, math.max, math.min, string.sub

-- Of English; code and other languages have fewer. It counts for its proportions alone.
local BYTES_A_TOKEN = 4

-- Hosted models charge 4 to 8 times as much for an output token as for one of input. In the model of
-- docs/research/inference.md 0, 4 and 16 had the same cache hits and latencies within their noise.
local OUTPUT = 4

-- Tokens of an answer of a model that has answered nothing yet: those of an hour of conversations have 343 (Mooncake).
local USUAL = 300

-- Answers that a mean remembers, and models of which one is known.
local MEMORY, MODELS = 64, 100

-- Of a prompt that begins no conversation, and of a conversation's first question: 1,000 tokens. With less, all that
-- share a system prompt would be one key; with more, what grows by a turn would have another key each time.
local START = 4096

-- The usage stands in the last event but one, or at the end of the object.
local TAIL = 4096

local EVENT = "\ndata:"

local _M = {}


--- The text of a prompt or of a message's content, which may be a list of parts, prompts or tokens.
local function text_of(content)
    local parts, texts = type(content) == "table" and content or { content }, {}
    for i = 1, #parts do
        local part = type(parts[i]) == "table" and parts[i].text or parts[i]
        texts[i] = (type(part) == "string" or type(part) == "number") and part or ""
    end
    return table.concat(texts, " ")
end


--- What stays the same of a conversation from turn to turn: all up to its first question, and the start of that.
local function start_of(messages)
    local texts = {}
    for i = 1, #messages do
        local message = type(messages[i]) == "table" and messages[i] or {}
        texts[i] = text_of(message.content)
        if message.role == "user" then
            texts[i] = sub(texts[i], 1, START)
            break
        end
    end
    return table.concat(texts, "\n")
end


--- Read the body of a request.
-- @return its model, the tokens that its answer may have, and the start of its prompt, each nil where it has none; or
--         nil where it is no JSON object
function _M.request(body)
    local document = json.decode_loosely(body)
    if type(document) ~= "table" or document[1] then
        return nil
    end
    local messages, model = document.messages, document.model
    local prefix = type(messages) == "table" and start_of(messages) or sub(text_of(document.prompt), 1, START)
    return {
        model = type(model) == "string" and model or nil,
        wanted = tonumber(document.max_completion_tokens) or tonumber(document.max_tokens),
        prefix = prefix ~= "" and prefix or nil,
    }
end


--- What a request is likely to cost: few answers are as long as they may be, so no more than those of its model lately.
-- @param lately tokens of answers, by model; learn() fills it
-- @param bytes  of the request's body
function _M.estimate(lately, request, bytes)
    lately = lately[request.model] or request.wanted or USUAL
    return bytes / BYTES_A_TOKEN + OUTPUT * max(0, min(request.wanted or lately, lately))
end


--- Learn from an answer that was given to its end. Only a model that answers is remembered, whatever clients name.
function _M.learn(lately, model, output)
    local known, models = lately[model], lately[0] or 0 -- names are texts
    if known then
        lately[model] = known + (output - known) / MEMORY
    elseif model and models < MODELS then
        lately[model], lately[0] = output, models + 1
    end
end


--- Read a piece of an answer, wherever it was cut: keep its last bytes, and count its events.
-- @param answer what was read before, from { tail = "\n", events = 0 } on
function _M.read(answer, piece)
    local text = sub(answer.tail, 1 - #EVENT) .. piece
    local _, at = find(text, EVENT, 1, true)
    while at do
        answer.events = answer.events + 1
        _, at = find(text, EVENT, at, true)
    end
    local tail = answer.tail .. sub(piece, -TAIL)
    answer.tail = #tail > 2 * TAIL and sub(tail, -TAIL) or tail
end


--- What an answer says that it took, of input that had to be computed and of output. Without a usage each event is a
-- token, but the first, which has the role alone, and the last, [DONE].
-- @param bytes of the request's body
-- @return the cost, and the tokens of output; nil where it says nothing
function _M.used(answer, bytes)
    local usage = json.decode(match(answer.tail, '.*"usage"%s*:%s*(%b{})') or "") or {}
    local input, output = tonumber(usage.prompt_tokens), tonumber(usage.completion_tokens)
    if not (input and output) then
        if answer.events == 0 then
            return nil
        end
        input, output = bytes / BYTES_A_TOKEN, max(0, answer.events - 2)
    end
    local details = usage.prompt_tokens_details
    local cached = type(details) == "table" and tonumber(details.cached_tokens) or 0
    return max(1, input - cached + OUTPUT * output), output
end


return _M
