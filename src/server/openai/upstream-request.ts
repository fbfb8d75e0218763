// What is asked of an upstream, made from the body of a chat or a text, which the bodies of all protocols are converted to.
// Nothing is dropped that would change the answer: a field stays here for the upstream's protocol to carry or refuse.

import { estimateTokens, type UpstreamRequest } from '../../upstream/upstream-request.ts';
import { badRequest } from '../http/errors.ts';
import { type ChatBody, templateOptions } from './schemas/chat.ts';
import type { TextBody } from './schemas/completions.ts';
import { splitPrompt, textOf, type WirePrompt } from './schemas/prompts.ts';
import { choicesOf } from './schemas/sampling.ts';

type Fields = Readonly<Record<string, unknown>>;

/** How the answer is sent, or whose it is: a matter of this server alone. */
const ownFields = new Set([
  ...['model', 'stream', 'stream_options', 'service_tier', 'include_reasoning', 'formatName'],
  // This server measures them itself.
  'timings_per_token',
  // Prefixes are saved of models that are here.
  'id_slot',
  // It stands in chat_template_kwargs, too.
  'thinkingBudget',
  // One limit, given apart.
  ...['max_tokens', 'max_completion_tokens', 'n_predict'],
]);

const isOff = (value: unknown) => typeof value === 'number' && value <= 0;
const is =
  (...neutral: readonly unknown[]) =>
  (value: unknown) =>
    neutral.includes(value);

/** Values that change nothing. */
const neutral: Readonly<Record<string, (value: unknown) => boolean>> = {
  n: is(1),
  top_k: isOff,
  min_p: is(0),
  typical_p: is(1),
  repetition_penalty: is(1),
  repeat_penalty: is(1),
  dry_multiplier: is(0),
  xtc_probability: is(0),
  mirostat: is(0),
  dynatemp_range: is(0),
  top_n_sigma: isOff,
  min_keep: is(0),
  min_tokens: is(0),
  ignore_eos: is(false),
  skip_special_tokens: is(true),
  include_stop_str_in_output: is(false),
  t_max_predict_ms: isOff,
  priority: is(0),
  return_token_ids: is(false),
  return_tokens_as_token_ids: is(false),
  verbose: is(false),
  logprobs: is(false),
  top_logprobs: is(0),
  echo: is(false),
  suffix: is(''),
  presence_penalty: is(0),
  frequency_penalty: is(0),
  parallel_tool_calls: is(true),
  add_generation_prompt: is(true),
  continue_final_message: is(false),
};

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

function meantFields(body: Fields): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(body).filter(
      ([name, value]) => !ownFields.has(name) && !isEmpty(value) && neutral[name]?.(value) !== true,
    ),
  );
}

export function chatRequest(
  body: ChatBody,
  maxTokens: number | undefined,
  maxChoices: number,
): UpstreamRequest {
  const { messages: given, tools: offered, tool_choice, parallel_tool_calls, ...others } = body;
  const { response_format, reasoning_effort, chat_template_kwargs, enable_thinking, ...rest } = others;
  const messages = given.map(plainMessage);
  const continues = templateOptions(body, { thinking: undefined }).continueFinalMessage === true;
  const tools = offered?.map(plainTool) ?? [];
  const fields = {
    ...meantFields({ ...rest, add_special_tokens: rest.add_special_tokens === true || undefined }),
    messages,
    // Without tools there is nothing to choose.
    ...(tools.length === 0 ? {} : meantFields({ tools, tool_choice, parallel_tool_calls })),
    ...(response_format === undefined ? {} : formatOf(response_format)),
    ...thinkingFields({ reasoning_effort, chat_template_kwargs, enable_thinking }),
    ...(continues ? { continue_final_message: true } : {}),
  };
  const thoughts = given.some(({ reasoning_content: thought }) => !isEmpty(thought));
  return {
    kind: 'chat',
    fields,
    answers: choicesOf(body, maxChoices),
    maxTokens,
    leftOut: thoughts
      ? ["reasoning of earlier turns is not sent: the upstream's protocol has no place for it"]
      : [],
    promptTokens: estimatedTokens(messages, tools),
  };
}

/** About what a picture of a million pixels has in most models. */
const IMAGE_TOKENS = 1000;

function estimatedTokens(messages: readonly Fields[], tools: readonly Fields[]): number {
  let images = 0;
  const text = JSON.stringify([messages, tools], (key, value: unknown) => {
    if (key !== 'image_url') return value;
    images++;
    return undefined;
  });
  return estimateTokens(text.length) + images * IMAGE_TOKENS;
}

export function textRequest(
  body: TextBody,
  maxTokens: number | undefined,
  maxChoices: number,
): UpstreamRequest {
  const { best_of: made, n = 1, add_special_tokens: bos, ...rest } = body;
  if (made !== undefined && made > 1)
    throw badRequest('best_of', 'is not possible with a model of an upstream');
  const prompts = splitPrompt(body.prompt);
  const prompt = promptOf(body.prompt);
  return {
    kind: 'text',
    fields: { ...meantFields({ ...rest, n, add_special_tokens: bos === false ? false : undefined }), prompt },
    answers: prompts.length * choicesOf(body, maxChoices),
    maxTokens,
    leftOut: [],
    promptTokens: estimateTokens(JSON.stringify(prompt).length),
  };
}

/** Texts as texts; ids are the upstream's own. */
function promptOf(prompt: WirePrompt): unknown {
  const several = splitPrompt(prompt).map((one) => {
    const text = textOf(one);
    if (text !== undefined) return text;
    if ((one as readonly unknown[]).every(Number.isInteger)) return one;
    throw badRequest(
      'prompt',
      'texts and token ids in one sequence are not possible with a model of an upstream',
    );
  });
  return several.length === 1 ? several[0] : several;
}

/** Only what OpenAI's messages have: other servers refuse more. */
function plainMessage(message: ChatBody['messages'][number]): Fields {
  const { role, content, refusal, name, tool_calls: calls, tool_call_id: callId } = message;
  return {
    role,
    content: isEmpty(content) ? (isEmpty(calls) ? '' : null) : content,
    ...(isEmpty(refusal) ? {} : { refusal }),
    // Results have the name of their function here, for templates; there they have only its id.
    ...(isEmpty(name) || role === 'tool' ? {} : { name }),
    ...(isEmpty(calls) ? {} : { tool_calls: calls?.map(plainCall) }),
    ...(isEmpty(callId) ? {} : { tool_call_id: callId }),
  };
}

function plainCall(call: Fields): Fields {
  const called = call.function as Fields | undefined;
  if (called === undefined || typeof called.arguments === 'string') return call;
  return { ...call, function: { ...called, arguments: JSON.stringify(called.arguments ?? {}) } };
}

function plainTool({ type, function: { strict, ...rest } }: NonNullable<ChatBody['tools']>[number]): Fields {
  return { type, function: { ...rest, ...(strict ? { strict } : {}) } };
}

/** OpenAI's schemas have names; an object by a schema is one of llama-server's ways to say the same. */
function formatOf(format: NonNullable<ChatBody['response_format']>): Fields {
  if (format.type === 'text') return {};
  const schema = format.json_schema?.schema ?? format.schema;
  if (schema === undefined) return { response_format: { type: format.type } };
  const { name = 'answer', strict, description } = (format.json_schema ?? {}) as Fields;
  const json_schema = {
    name,
    schema,
    ...(isEmpty(strict) ? {} : { strict }),
    ...(isEmpty(description) ? {} : { description }),
  };
  return { response_format: { type: 'json_schema', json_schema } };
}

/** Whether a model thinks is the template's matter here, and `reasoning_effort` in OpenAI's protocol. */
function thinkingFields({
  enable_thinking: thinks,
  chat_template_kwargs: named,
  reasoning_effort: effort,
}: Pick<ChatBody, 'enable_thinking' | 'chat_template_kwargs' | 'reasoning_effort'>): Fields {
  const { enable_thinking = thinks, thinking, reasoning_effort: level = effort, ...others } = named ?? {};
  const isOn = enable_thinking ?? thinking;
  const told = level ?? (isOn === undefined ? undefined : isOn === false ? 'none' : 'medium');
  return {
    ...(told === undefined ? {} : { reasoning_effort: told }),
    ...(isEmpty(others) ? {} : { chat_template_kwargs: others }),
  };
}
