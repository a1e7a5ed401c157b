--- Requests of an OpenAI-style API and their answers: their work in tokens, and the prompt's start, which may be
-- cached.
--
--   cost = input + OUTPUT_COST * output    in tokens: an estimate before, the answer's `usage` afterwards
--
-- Pure.

local json = require "steelyard.core.json"
local number = require "steelyard.core.number"

local find, match, max, min, sub = string.find, string.match, math.max, math.min, string.sub

-- In English text; code and other languages have fewer. Only proportions matter.
local BYTES_A_TOKEN = 4

-- Hosted models charge 4 to 8 times as much for an output token as for an input token. In the model of
-- docs/research/inference.md 0, 4 and 16 had the same cache hits and latencies within their noise.
local OUTPUT_COST = 4

-- Output tokens of a model without an answer so far: an hour of conversations has 343 on average (Mooncake).
local USUAL_OUTPUT_TOKENS = 300

-- Answers in a running mean, and models with one.
local ANSWERS_IN_MEAN, MAX_MODELS = 64, 100

-- Bytes of a prompt's start, and of a conversation's first question: 1,000 tokens. With less, all prompts with a
-- common system prompt would be one key. With more, a growing conversation would get another key each time.
local START_BYTES = 4096

-- The usage is in the last event but one, or at the end of the object.
local TAIL_BYTES = 4096

local EVENT_MARK = "\ndata:"

-- Above every real number of tokens.
local MAX_TOKENS = 1e9

local _M = {}


local function tokens(value)
    return number.decimal(value, 0, MAX_TOKENS)
end


--- Return the text of a prompt or of a message's content; either may be a list of parts, prompts or tokens.
local function text_of(content)
    local parts, texts = type(content) == "table" and content or { content }, {}
    for i = 1, #parts do
        local part = type(parts[i]) == "table" and parts[i].text or parts[i]
        texts[i] = (type(part) == "string" or type(part) == "number") and part or ""
    end
    return table.concat(texts, " ")
end


--- Return the constant part of a conversation: all up to its first question, and the start of that.
local function start_of(messages)
    local texts = {}
    for i = 1, #messages do
        local message = type(messages[i]) == "table" and messages[i] or {}
        texts[i] = text_of(message.content)
        if message.role == "user" then
            texts[i] = sub(texts[i], 1, START_BYTES)
            break
        end
    end
    return table.concat(texts, "\n")
end


--- Read the body of a request.
-- @return its model, the most tokens of its answer, and the start of its prompt, each nil if it has none; or nil if it
--        is no JSON object
function _M.request(body)
    local document = json.decode_loosely(body)
    if type(document) ~= "table" or document[1] then
        return nil
    end
    local messages, model = document.messages, document.model
    local prefix = type(messages) == "table" and start_of(messages) or sub(text_of(document.prompt), 1, START_BYTES)
    return {
        model = type(model) == "string" and model or nil,
        wanted = number.decimal(document.max_completion_tokens, -MAX_TOKENS, MAX_TOKENS)
                 or number.decimal(document.max_tokens, -MAX_TOKENS, MAX_TOKENS),
        prefix = prefix ~= "" and prefix or nil,
    }
end


--- Estimate the cost of a request. Few answers are as long as allowed: the mean of the model's recent answers is the
-- bound.
-- @param lately tokens of answers, by model; learn() fills it
-- @param bytes  of the request's body
function _M.estimate(lately, request, bytes)
    lately = lately[request.model] or request.wanted or USUAL_OUTPUT_TOKENS
    return bytes / BYTES_A_TOKEN + OUTPUT_COST * max(0, min(request.wanted or lately, lately))
end


--- Learn from a complete answer. Only a model with answers is remembered, whatever names clients send.
function _M.learn(lately, model, output)
    local known, models = lately[model], lately[0] or 0 -- names are texts
    if known then
        lately[model] = known + (output - known) / ANSWERS_IN_MEAN
    elseif model and models < MAX_MODELS then
        lately[model], lately[0] = output, models + 1
    end
end


--- Read a piece of an answer, cut anywhere: keep its last bytes, and count its events.
-- @param answer the state so far; { tail = "\n", events = 0 } at first
function _M.read(answer, piece)
    local text = sub(answer.tail, 1 - #EVENT_MARK) .. piece
    local _, at = find(text, EVENT_MARK, 1, true)
    while at do
        answer.events = answer.events + 1
        _, at = find(text, EVENT_MARK, at, true)
    end
    local tail = answer.tail .. sub(piece, -TAIL_BYTES)
    answer.tail = #tail > 2 * TAIL_BYTES and sub(tail, -TAIL_BYTES) or tail
end


--- Return the tokens of an answer: input that had to be computed, and output. Without a usage each event is a token,
-- but for the first, with the role alone, and the last, [DONE].
-- @param bytes of the request's body
-- @return the cost, and the tokens of output; nil if the answer has neither
function _M.used(answer, bytes)
    local usage = json.decode(match(answer.tail, '.*"usage"%s*:%s*(%b{})') or "") or {}
    local input, output = tokens(usage.prompt_tokens), tokens(usage.completion_tokens)
    if not (input and output) then
        if answer.events == 0 then
            return nil
        end
        input, output = bytes / BYTES_A_TOKEN, max(0, answer.events - 2)
    end
    local details = usage.prompt_tokens_details
    local cached = type(details) == "table" and tokens(details.cached_tokens) or 0
    return max(1, input - cached + OUTPUT_COST * output), output
end


return _M
