local inference = require "steelyard.core.inference"
local json = require "steelyard.core.json"


local function prefix(document)
    return inference.request(json.encode(document)).prefix
end


local function chat(...)
    local messages = { { role = "system", content = "Be brief." } }
    for i, text in ipairs({ ... }) do
        messages[i + 1] = { role = i % 2 == 1 and "user" or "assistant", content = text }
    end
    return { messages = messages }
end


--- Return the result for an answer in pieces of n bytes.
local function read(text, bytes)
    local answer = { tail = "\n", events = 0 }
    for at = 1, #text, bytes do
        inference.read(answer, string.sub(text, at, at + bytes - 1))
    end
    return answer
end


describe("the prefix of a request", function()
    it("is that of each turn of a conversation, and of no other", function()
        local first = prefix(chat("Why?"))
        assert.equal(first, prefix(chat("Why?", "Because.", "And then?")))
        assert.equal(first, prefix(chat({ { type = "text", text = "Why?" } }, "Because.")))
        assert.not_equal(first, prefix(chat("Who?")))
    end)

    it("is the first 4096 bytes of a long question, or prompt, and all of the system's words", function()
        local long = string.rep("x", 4096)
        assert.equal(prefix(chat(long .. "y")), prefix(chat(long .. "z")))
        assert.equal(long, prefix({ prompt = long .. "y" }))
        assert.equal("1 2 3", prefix({ prompt = { 1, 2, 3 } }))
        local words, other = chat("Why?"), chat("Why?")
        words.messages[1].content, other.messages[1].content = long .. "y", long .. "z"
        assert.not_equal(prefix(words), prefix(other))
    end)

    it("is read with line ends and control characters in it: the engine judges", function()
        local request = inference.request('{\n"model": "m\1",\n"prompt": "a\tb"\n}\n')
        assert.same({ "m\1", "a\tb" }, { request.model, request.prefix })
    end)

    it("has no prefix without a prompt, and is none if it is no JSON object", function()
        for _, body in ipairs({ "{}", '{"prompt":true}', '{"messages":[]}', '{"prompt":null}' }) do
            assert.is_nil(inference.request(body).prefix)
        end
        for _, body in ipairs({ "", "[]x", "7", '"messages"', '[{"prompt":"x"}]' }) do
            assert.is_nil(inference.request(body))
        end
        assert.is_string(inference.request('{"messages":[7,null,{"role":"user","content":[null,{"a":1},"x"]}]}').prefix)
    end)
end)


describe("the estimate", function()
    local function estimate(models, document)
        return inference.estimate(models, inference.request(json.encode(document)), 400)
    end

    it("is the input and the model's recent output, at most the requested one", function()
        local models = {}
        assert.equal(100 + 4 * 300, estimate(models, { model = "m" }))
        assert.equal(100 + 4 * 900, estimate(models, { model = "m", max_tokens = 900 }))
        inference.learn(models, "m", 50)
        assert.equal(100 + 4 * 50, estimate(models, { model = "m", max_tokens = 900 }))
        assert.equal(100 + 4 * 7, estimate(models, { model = "m", max_completion_tokens = 7, max_tokens = 900 }))
        assert.equal(100 + 4 * 300, estimate(models, { model = "another" }))
        assert.equal(100, estimate(models, { model = "m", max_tokens = -5 }))
    end)

    it("follows a model's answers, and remembers no more models than it can", function()
        local models = {}
        for _ = 1, 1000 do
            inference.learn(models, "m", 10)
            inference.learn(models, "n", 1000)
        end
        assert.near(10, models.m, 1e-6)
        for n = 1, 500 do
            inference.learn(models, "model " .. n, 1)
        end
        inference.learn(models, nil, 1)
        local n = 0
        for model in pairs(models) do
            n = n + (type(model) == "string" and 1 or 0)
        end
        assert.equal(100, n)
    end)
end)


describe("an answer", function()
    local USAGE = '"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60}}'
    local EVENT = 'data: {"choices":[{"delta":{"content":"\\"usage\\":{"}}],"usage":null}\n\n'

    it("gives its tokens, the uncached part of the input, wherever it was cut", function()
        local text = string.rep(EVENT, 300) .. 'data: {"choices":[],' .. USAGE .. "}\n\ndata: [DONE]\n\n"
        for _, bytes in ipairs({ 1, 2, 5, 7, 100, 5000, #text }) do
            local answer = read(text, bytes)
            assert.same({ 40 + 4 * 7, 7 }, { inference.used(answer, 999) })
            assert.equal(302, answer.events)
            assert.is_true(#answer.tail <= 8192)
        end
        assert.same({ 68, 7 }, { inference.used(read('{"choices":[],' .. USAGE .. "}", 3), 999) })
        local cached = string.gsub(string.gsub(USAGE, ":100", ":60"), ":7", ":0")
        assert.same({ 1, 0 }, { inference.used(read("{" .. cached .. "}", 3), 999) })
    end)

    it("counts its events if it has no usage", function()
        assert.same({ 100 + 4 * 8, 8 }, { inference.used(read(string.rep(EVENT, 9) .. "data: [DONE]\n\n", 3), 400) })
        assert.same({ 132, 8 }, { inference.used(read(string.gsub(string.rep(EVENT, 10), "\n", "\r\n"), 3), 400) })
        assert.is_nil(inference.used(read('{"choices":[]}', 3), 400))
        assert.is_nil(inference.used(read('{"usage":{"prompt_tokens":null}}', 3), 400))
    end)
end)
