--- Inference engines behind nginx: what an upstream's options `cost`, `cost_at_end` and `hash_key` are given, the
-- line that reads answers, and the one that has the model choose the upstream (docs/guides/inference.md).
--
-- A request's body is read once, where nginx has it whole and it is no larger than MOST_BODY: of another one the
-- length alone counts. Nothing is changed or held back; what cannot be read counts as a usual request. by_model()
-- alone reads bodies of any size, and refuses requests.

local inference = require "steelyard.core.inference"
local json = require "steelyard.core.json"
local response = require "steelyard.phase.response"
local worker = require "steelyard.phase.worker"

local ngx = ngx

-- 128,000 tokens. It takes a worker 0.8 ms to read them.
local MOST_BODY = 524288

local lately = {}

-- Bytes of a model's name: such as "meta-llama/Llama-3.1-8B-Instruct:adapter", and room for more.
local LONGEST_NAME = 256

local _M = {}


--- The request's body; nil where nginx has not read it, or it is larger than `most`. What did not fit into
-- client_body_buffer_size is in a file, written a moment ago, which has a name only where Lua had it read (limit()).
local function body_of(var, most)
    local body, path = var.request_body, var.request_body_file
    local file = not body and path and io.open(path, "rb")
    if file then
        body = file:read(most < math.huge and most + 1 or "*a")
        file:close()
    end
    return body and #body <= most and body or nil
end


--- What is known of the request, looked up once.
-- @param most bytes of a body that is read; left out, MOST_BODY
local function request(most)
    local ctx = ngx.ctx
    local known = ctx.steelyard_inference
    if not known then
        local var = ngx.var
        local body = body_of(var, most or MOST_BODY)
        local bytes = body and #body or tonumber(var.content_length) or 0
        known = { request = body and inference.request(body) or not body and bytes > 0 and {}, bytes = bytes }
        local prefix = known.request and known.request.prefix
        if prefix then
            known.request.prefix = ngx.crc32_long(prefix) -- it may be long, and an answer take minutes
        end
        ctx.steelyard_inference = known
    end
    return known
end


--- hash_key: the start of the prompt; nil where there is none.
function _M.prefix()
    local known = request().request
    return known and known.prefix
end


--- cost: the tokens that the request is likely to take; nil where it is no JSON.
function _M.cost()
    local known = request()
    return known.request and inference.estimate(lately, known.request, known.bytes)
end


--- End the request with an error as OpenAI's API has it.
local function refuse(status, code, message)
    ngx.status = status
    ngx.header["Content-Type"] = "application/json"
    local said = { message = message, type = "invalid_request_error", param = "model", code = code }
    ngx.say(json.encode({ error = said }))
    return ngx.exit(ngx.HTTP_OK) -- the answer is as it was said
end


--- access_by_lua: have a variable be the model that the body names. Then another one, a map of it, names the upstream;
-- where none is of this name the request ends with 404, and with 400 where the body names no model.
function _M.by_model(model_variable, upstream_variable)
    ngx.req.read_body()
    ngx.ctx.steelyard_inference = nil -- who looked before, such as limit(), has not read a large body
    local var, known = ngx.var, request(math.huge).request
    local model = known and known.model
    if not model then
        return refuse(400, "model_missing", "the body has to be a JSON object with `model`, a text")
    end
    -- A line end in a variable ends a header's line, wherever nginx.conf puts it.
    local is_name = #model <= LONGEST_NAME and not string.find(model, "%c")
    var[model_variable] = is_name and model or ""
    if worker.broken or worker.upstreams[var[upstream_variable]] then
        return -- balance() says what is broken
    elseif worker.options.any_upstream and not worker.listed_version then
        return refuse(503, "models_unknown", "the list of upstreams is not known yet: come again in a second")
    end
    worker.dict:incr("unknown_upstreams", 1, 0)
    local shown = string.gsub(string.sub(model, 1, 128), "[^%w._:/@+-]", "?") -- clients choose it
    return refuse(404, "model_not_found", "the model `" .. shown .. "` does not exist, or is not served here")
end


--- body_filter_by_lua: read an answer as it passes. Its latency is the time to its first event, if it has any.
function _M.answer()
    local known = ngx.status == 200 and request()
    if known and known.request then
        local answer = known.answer
        if not answer then
            answer, known.began_at = { tail = "\n", events = 0 }, ngx.now()
            known.answer = answer
            response.begun()
        end
        local before = answer.events
        inference.read(answer, ngx.arg[1])
        if before == 0 and answer.events > 0 then
            response.first_event(known.began_at)
        end
        known.ended = ngx.arg[2]
    end
end


--- cost_at_end: what the answer says that it took; nil where it says nothing.
function _M.used()
    local known = request()
    local cost, output = nil, nil
    if known.answer then
        cost, output = inference.used(known.answer, known.bytes)
    end
    if cost and known.ended then
        inference.learn(lately, known.request.model, output)
    end
    return cost
end


return _M
