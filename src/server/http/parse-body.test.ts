import { describe, expect, it } from 'vitest';
import { GenerationError } from '../../generation/generation-error.ts';
import { type SampledModel, wireNames } from '../../generation/sampling-settings.ts';
import { chatRules } from '../openai/schemas/chat.ts';
import { textRules } from '../openai/schemas/completions.ts';
import { samplingOf, stopsOf } from '../openai/schemas/sampling.ts';
import { ApiError, toApiError, unknownWarning } from './errors.ts';
import { isTooDeep, parseBody } from './parse-body.ts';

const messages = [{ role: 'user', content: 'Hello' }];

function refusalOf(act: () => unknown): ApiError {
  try {
    act();
  } catch (error) {
    if (error instanceof ApiError || error instanceof GenerationError) return toApiError(error);
    throw error;
  }
  throw new Error('it was not refused');
}

const chat = (body: object) => parseBody(chatRules, { messages, ...body });
const text = (body: object) => parseBody(textRules, { prompt: 'Once', ...body });

describe('a request body', () => {
  it.each([
    [{ temperature: 'warm' }, 'temperature', 'invalid_type'],
    [{ stop: '' }, 'stop', 'invalid_value'],
    [{ stop: Array.from({ length: 17 }, (_, n) => `${n}`) }, 'stop', 'invalid_value'],
    [{ stop: ['\ud800'] }, 'stop[0]', 'invalid_value'],
    [{ messages: undefined }, 'messages', 'missing_required_parameter'],
    [{ messages: [] }, 'messages', 'invalid_value'],
    [{ messages: [{ role: 'wizard', content: '' }] }, 'messages[0].role', 'invalid_value'],
    [{ messages: [...messages, { role: 'user', content: 7 }] }, 'messages[1].content', 'invalid_value'],
    [{ tools: [{ type: 'function' }] }, 'tools[0].function', 'missing_required_parameter'],
    [{ tool_choice: 'sometimes' }, 'tool_choice', 'invalid_value'],
    [{ response_format: { type: 'xml' } }, 'response_format.type', 'invalid_value'],
    [{ modalities: ['text', 'audio'] }, 'modalities', 'unsupported_parameter'],
    [{ modalities: ['audio'] }, 'modalities', 'unsupported_parameter'],
    [{ audio: { voice: 'ash', format: 'mp3' } }, 'audio', 'unsupported_parameter'],
    [{ verbosity: 'low' }, 'verbosity', 'unsupported_parameter'],
    [{ web_search_options: {} }, 'web_search_options', 'unsupported_parameter'],
    [{ functions: [{}] }, 'functions[0].name', 'missing_required_parameter'],
    [{ function_call: 'required' }, 'function_call', 'invalid_value'],
  ])('of a chat with %j is refused, naming %s', (body, param, code) => {
    expect(refusalOf(() => chat(body))).toMatchObject({ status: 400, param, code });
  });

  it.each([
    [{ prompt: [] }, 'prompt'],
    [{ prompt: [1.5] }, 'prompt'],
    [{ prompt: ['a', 1.5] }, 'prompt'],
    [{ suffix: 7 }, 'suffix'],
    [{ best_of: 1.5 }, 'best_of'],
  ])('of a text completion with %j is refused, naming %s', (body, param) => {
    expect(refusalOf(() => text(body))).toMatchObject({ status: 400, param });
  });

  it('may hold what changes nothing', () => {
    const body = { tools: [], tool_choice: 'none', response_format: { type: 'text' }, modalities: ['text'] };
    const records = {
      user: 'me',
      metadata: { a: 'b' },
      store: true,
      service_tier: 'flex',
      prompt_cache_key: 'k',
    };
    const prediction = { type: 'content', content: 'x' };
    expect(chat({ ...body, ...records, prediction, verbosity: 'medium' }).unknown).toEqual([]);
    expect(text({ n: 2, best_of: 2, suffix: '' }).unknown).toEqual([]);
  });

  it('may give null for whatever it leaves out', () => {
    expect(chat({ temperature: null, tools: null, stop: null }).body).toEqual({ messages });
    expect(chat({ stream: true, stream_options: { include_usage: null } }).unknown).toEqual([]);
  });

  it('is sent the names of unknown keys inside of parameters, too', () => {
    const { unknown } = chat({
      messages: [{ role: 'user', content: [{ type: 'text', text: 'a', cache_control: {} }], nme: 'x' }],
      stream: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
      tools: [{ type: 'function', function: { name: 'f', examples: [] }, extra: 1 }],
      response_format: { type: 'text', style: 'terse' },
    });
    expect(unknown).toEqual([
      'stream_options.continuous_usage_stats',
      'response_format.style',
      'messages[].nme',
      'messages[].content[].cache_control',
      'tools[].extra',
      'tools[].function.examples',
    ]);
  });

  it.each([
    [{ top_a: 0.2 }, 'top_a'],
    [{ no_repeat_ngram_size: 3 }, 'no_repeat_ngram_size'],
    [{ lora: [{ id: 0, scale: 1 }] }, 'lora'],
    [{ post_sampling_probs: true }, 'post_sampling_probs'],
    [{ spaces_between_special_tokens: false }, 'spaces_between_special_tokens'],
    [{ repeat_penalty: 1.1, repetition_penalty: 1.2 }, 'repeat_penalty'],
  ])('is refused where a peer’s parameter would change the answer: %j', (body, param) => {
    expect(refusalOf(() => text(body))).toMatchObject({ status: 400, param });
  });

  it('is taken where a peer’s parameter changes nothing, and told of those that steer its internals', () => {
    const neutral = { top_a: 0, tfs: 1, lora: [], length_penalty: 1, adaptive_target: -1, guidance_scale: 1 };
    const { unknown } = text({ ...neutral, n_discard: 3, data_parallel_rank: 1 });
    expect(unknown).toEqual(['n_discard', 'data_parallel_rank']);
  });

  it('is sent the names of unknown parameters', () => {
    const { unknown } = chat({ temprature: 0.5, n_keep: 2 });
    expect(unknown).toEqual(['temprature', 'n_keep']);
    expect(unknownWarning(unknown)).toBe('unknown parameters were ignored: temprature, n_keep');
  });

  it('with too many values is refused before anything looks at them', () => {
    const many = Array(100_000).fill({});
    expect(refusalOf(() => chat({ messages: many })).code).toBe('request_too_large');
    expect(refusalOf(() => chat({ messages: [{ role: 'user', content: many }] })).code).toBe(
      'request_too_large',
    );
    expect(text({ prompt: Array(100_000).fill(7) }).body.prompt).toHaveLength(100_000);
  });

  it('must be an object', () => {
    for (const body of [undefined, null, 'text', 3, []]) {
      expect(refusalOf(() => parseBody(chatRules, body)).status).toBe(400);
    }
  });
});

describe('a warning', () => {
  it('never holds what a header may not', () => {
    const hostile = unknownWarning([
      'a\r\nset-cookie: b',
      'ünïcode',
      'x'.repeat(500),
      ...Array(40).fill('y'),
    ]);
    expect(hostile).toMatch(/^[\x20-\x7e]+$/);
    expect(hostile.length).toBeLessThan(300);
  });
});

describe('sampling parameters', () => {
  const model = {
    spec: { vocabSize: 100 },
    tokenizer: { encode: () => new Int32Array() },
  } as unknown as SampledModel;
  const sampling = (body: Parameters<typeof samplingOf>[0]) =>
    samplingOf(body, { logprobs: undefined, maxTokens: 5 }, model, {
      ...wireNames,
      prompt: 'messages',
      maxTokens: 'max_completion_tokens',
    });

  it('reach the engine under its own names', () => {
    const parameters = sampling({
      temperature: 0.5,
      top_k: -1,
      top_p: 0.9,
      min_p: 0.1,
      typical_p: 0.8,
      repeat_penalty: 1.1,
      repeat_last_n: 64,
      dry_multiplier: 0.8,
      dry_base: 2,
      dry_allowed_length: 3,
      dry_penalty_last_n: 100,
      xtc_probability: 0.5,
      xtc_threshold: 0.2,
      mirostat: 2,
      mirostat_tau: 3,
      mirostat_eta: 0.2,
      dynatemp_range: 0.3,
      dynatemp_exponent: 2,
      top_n_sigma: 1,
      min_keep: 2,
      samplers: 'kt',
      allowed_token_ids: [7],
      presence_penalty: 1,
      frequency_penalty: -1,
      logit_bias: { 7: -100 },
      seed: 3,
      stop_token_ids: [9],
      min_tokens: 2,
      ignore_eos: true,
    });
    expect(parameters).toMatchObject({
      temperature: 0.5,
      topK: 0,
      topP: 0.9,
      minP: 0.1,
      typicalP: 0.8,
      repetitionPenalty: 1.1,
      repeatLastN: 64,
      dryMultiplier: 0.8,
      dryBase: 2,
      dryAllowedLength: 3,
      dryPenaltyLastN: 100,
      xtcProbability: 0.5,
      xtcThreshold: 0.2,
      mirostat: 2,
      mirostatTau: 3,
      mirostatEta: 0.2,
      dynatempRange: 0.3,
      dynatempExponent: 2,
      topNSigma: 1,
      minKeep: 2,
      samplers: ['top_k', 'temperature'],
      allowedTokenIds: [7],
      presencePenalty: 1,
      frequencyPenalty: -1,
      logitBias: [{ token: 7, bias: -100 }],
      stopIds: [9],
      minTokens: 2,
      maxTokens: 5,
      ignoreEos: true,
    });
    expect(parameters.seed).toEqual(sampling({ seed: 3 }).seed);
  });

  it.each([
    [{ temperature: -1 }, 'temperature'],
    [{ top_p: -0.1 }, 'top_p'],
    [{ repetition_penalty: 1e-300 }, 'repetition_penalty'],
    [{ repetition_penalty: 1e300 }, 'repetition_penalty'],
    [{ logit_bias: { 100: 1 } }, 'logit_bias'],
    [{ logit_bias: { word: 1 } }, 'logit_bias'],
    [{ logit_bias: { 1: 101 } }, 'logit_bias'],
    [{ seed: 2 ** 60 }, 'seed'],
    [{ stop_token_ids: [-1] }, 'stop_token_ids'],
    [{ min_tokens: 6 }, 'max_completion_tokens'],
  ])('out of range are refused by their name on the wire: %j', (body, param) => {
    expect(refusalOf(() => sampling(body as never))).toMatchObject({ status: 400, param });
  });

  it('choose a fresh seed where none is given', () => {
    expect(sampling({}).seed).not.toEqual(sampling({}).seed);
  });

  it('take one stop string or several', () => {
    expect(stopsOf({ stop: 'a' })).toEqual(['a']);
    expect(stopsOf({ stop: ['a', 'b'] })).toEqual(['a', 'b']);
    expect(stopsOf({})).toEqual([]);
  });
});

const nested = (levels: number) => `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`;

describe('how deep a body is nested', () => {
  it('may be a thousand levels', () => {
    expect(isTooDeep(nested(1000))).toBe(false);
    expect(isTooDeep(nested(1002))).toBe(true);
  });

  it('counts no brackets within strings, escaped quotes among them', () => {
    for (const text of ['[', '\\"[', '\\\\\\"[']) {
      expect(isTooDeep(`["${text.repeat(2000)}"]`)).toBe(false);
    }
    expect(isTooDeep(`["\\\\",${'['.repeat(1000)}`)).toBe(true);
  });

  it('is seen in wide bodies and broken ones, too', () => {
    expect(isTooDeep(`[${'[],'.repeat(100_000)}[]]`)).toBe(false);
    expect(isTooDeep('"never closed')).toBe(false);
    expect(isTooDeep('{"a": "\\')).toBe(false);
  });
});
