--- Inference engines behind nginx (docs/guides/inference.md): functions for an upstream's options `cost`, `cost_at_end`
-- and `hash_key`, the reader of answers, and the choice of the upstream by the model.
--
-- A request's body is read once, if nginx has it whole and it has at most MAX_BODY_BYTES: of a larger one the length
-- alone counts. Nothing is changed or held back; an unreadable body counts as a usual request. Only by_model() reads
-- bodies of any size, and refuses requests.

local inference = require "steelyard.core.inference"
local json = require "steelyard.core.json"
local number = require "steelyard.core.number"
local response = require "steelyard.phase.response"
local worker = require "steelyard.phase.worker"

local ngx = ngx

-- 128,000 tokens: a worker reads them in 0.8 ms.
local MAX_BODY_BYTES = 524288

-- Output tokens of recent answers, by model (core/inference).
local lately = {}

-- Bytes of a model's name, such as "meta-llama/Llama-3.1-8B-Instruct:adapter", and room for more.
local MAX_MODEL_BYTES = 256

local _M = {}


--- Return the request's body; nil if nginx has not read it, or it is larger than `most`. A body beyond
-- client_body_buffer_size is in a temporary file. Its name is known only if Lua had the body read (limit()).
local function body_of(var, most)
    local body, path = var.request_body, var.request_body_file
    local file = not body and path and io.open(path, "rb")
    if file then
        body = file:read(most < math.huge and most + 1 or "*a")
        file:close()
    end
    return body and #body <= most and body or nil
end


--- Return the facts about the request, looked up once: its parsed body `request`, and its `bytes`.
-- @param most bytes of a body to read; left out, MAX_BODY_BYTES
local function facts_of_request(most)
    local ctx = ngx.ctx
    local facts = ctx.steelyard_inference
    if not facts then
        local var = ngx.var
        local body = body_of(var, most or MAX_BODY_BYTES)
        local bytes = body and #body or number.whole(var.content_length, 0, number.MAX_EXACT) or 0
        facts = { request = body and inference.request(body) or not body and bytes > 0 and {}, bytes = bytes }
        local prefix = facts.request and facts.request.prefix
        if prefix then
            facts.request.prefix = ngx.crc32_long(prefix) -- it may be long, and an answer may take minutes
        end
        ctx.steelyard_inference = facts
    end
    return facts
end


--- hash_key: return the start of the prompt; nil if there is none.
function _M.prefix()
    local parsed = facts_of_request().request
    return parsed and parsed.prefix
end


--- cost: return the estimated tokens of the request; nil if it is no JSON.
function _M.cost()
    local facts = facts_of_request()
    return facts.request and inference.estimate(lately, facts.request, facts.bytes)
end


--- End the request with an error in the form of OpenAI's API.
local function refuse(status, code, message)
    ngx.status = status
    ngx.header["Content-Type"] = "application/json"
    local problem = { message = message, type = "invalid_request_error", param = "model", code = code }
    ngx.say(json.encode({ error = problem }))
    return ngx.exit(ngx.HTTP_OK) -- the answer is complete
end


--- access_by_lua: set a variable to the model in the body. Another variable, a map of it, names the upstream. If there
-- is no upstream of this name the request ends with 404, and with 400 if the body names no model.
function _M.by_model(model_variable, upstream_variable)
    ngx.req.read_body()
    ngx.ctx.steelyard_inference = nil -- an earlier look, by limit() for example, has not read a large body
    local var, parsed = ngx.var, facts_of_request(math.huge).request
    local model = parsed and parsed.model
    if not model then
        return refuse(400, "model_missing", "the body has to be a JSON object with `model`, a text")
    end
    -- A line end in a variable would end a header's line.
    local is_name = #model <= MAX_MODEL_BYTES and not string.find(model, "%c")
    var[model_variable] = is_name and model or ""
    if worker.broken or worker.upstreams[var[upstream_variable]] then
        return -- balance() reports the problem
    elseif worker.options.any_upstream and not worker.listed_version then
        return refuse(503, "models_unknown", "the list of upstreams is not facts yet: come again in a second")
    end
    worker.dict:incr("unknown_upstreams", 1, 0)
    local shown = string.gsub(string.sub(model, 1, 128), "[^%w._:/@+-]", "?") -- the name comes from the client
    return refuse(404, "model_not_found", "the model `" .. shown .. "` does not exist, or is not served here")
end


--- body_filter_by_lua: read an answer as it passes. Its latency is the time to its first event, if it has any.
function _M.answer()
    local facts = ngx.status == 200 and facts_of_request()
    if facts and facts.request then
        local answer = facts.answer
        if not answer then
            answer = { tail = "\n", events = 0 }
            facts.answer, facts.began_at = answer, response.begun()
        end
        local before = answer.events
        inference.read(answer, ngx.arg[1])
        if before == 0 and answer.events > 0 then
            response.first_event(facts.began_at)
        end
        facts.ended = ngx.arg[2]
        if facts.ended then
            response.ended()
        end
    end
end


--- cost_at_end: return the cost of the answer; nil if the answer does not give it.
function _M.used()
    local facts = facts_of_request()
    local cost, output = nil, nil
    if facts.answer then
        cost, output = inference.used(facts.answer, facts.bytes)
    end
    if cost and facts.ended then
        inference.learn(lately, facts.request.model, output)
    end
    return cost
end


return _M
