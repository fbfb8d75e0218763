// The body of /v1/chat/completions for one lane of a conversation.

import type { Answer, LaneSettings, Said, Turn } from './conversation.ts';

const ALTERNATIVES = 5;

/** `turns` end with the one that is answered; `begun` is what there is of its answer, which the model continues. */
export function chatBody(
  settings: LaneSettings,
  turns: readonly Turn[],
  lane: number,
  begun: string | undefined,
  pictures: ReadonlyMap<string, string> = new Map(),
): object {
  return {
    model: settings.model,
    messages: [
      ...(settings.system.trim() === '' ? [] : [{ role: 'system', content: settings.system }]),
      ...turns.flatMap((turn, at) => messagesOf(turn, lane, at === turns.length - 1, pictures)),
      ...(begun === undefined ? [] : [{ role: 'assistant', content: begun }]),
    ],
    stream: true,
    stream_options: { include_usage: true },
    timings_per_token: true,
    ...numbersOf(settings),
    ...(settings.probabilities ? { logprobs: true, top_logprobs: ALTERNATIVES } : {}),
    ...(isEmpty(settings.tools)
      ? {}
      : { tools: parsed(settings.tools, 'the tools are no JSON; write a list as the OpenAI API takes it') }),
    ...(isEmpty(settings.schema) ? {} : { response_format: formatOf(settings.schema as string) }),
  };
}

/** Whether a model can go on with what there is of an answer: a schema, a call or reasoning would begin anew. */
export function isContinuable({ schema }: LaneSettings, { content, calls }: Answer): boolean {
  return content !== '' && calls.length === 0 && isEmpty(schema);
}

/** What the model reads: files come after the text, each under its name. */
export function messageText({ text, files = [] }: Said & { readonly by: 'user' }): string {
  const parts = files.map((file) => `${file.name}:\n\`\`\`\n${file.text}\n\`\`\``);
  return [...(text.trim() === '' ? [] : [text]), ...parts].join('\n\n');
}

/** Images come before the text; one that this browser has no more is named in its place. */
function userContent(
  said: Said & { readonly by: 'user' },
  pictures: ReadonlyMap<string, string>,
): string | readonly object[] {
  const { images = [] } = said;
  if (images.length === 0) return messageText(said);
  const shown = images.map(({ id, name }) => {
    const url = pictures.get(id);
    return url === undefined
      ? { type: 'text', text: `[The image ${name} is no longer there.]` }
      : { type: 'image_url', image_url: { url } };
  });
  const text = messageText(said);
  return text === '' ? shown : [...shown, { type: 'text', text }];
}

function messagesOf(
  { said, answers }: Turn,
  lane: number,
  last: boolean,
  pictures: ReadonlyMap<string, string>,
): object[] {
  if (said.by === 'tools' && said.lane !== lane) return [];
  const asked =
    said.by === 'user'
      ? [{ role: 'user', content: userContent(said, pictures) }]
      : said.results.map(({ callId, text }) => ({ role: 'tool', tool_call_id: callId, content: text }));
  const answer = answers[lane];
  if (last || !answer) return asked;
  const { content, calls } = answer;
  const toolCalls = calls.map(({ id, name, arguments: given }) => ({
    id,
    type: 'function',
    function: { name, arguments: given },
  }));
  return [
    ...asked,
    { role: 'assistant', content, ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls }) },
  ];
}

function numbersOf(settings: LaneSettings): object {
  const named = {
    temperature: settings.temperature,
    top_p: settings.topP,
    top_k: settings.topK,
    min_p: settings.minP,
    max_tokens: settings.maxTokens,
    seed: settings.seed,
    presence_penalty: settings.presencePenalty,
    frequency_penalty: settings.frequencyPenalty,
    repetition_penalty: settings.repetitionPenalty,
  };
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined));
}

function formatOf(schema: string): object {
  const given = parsed(schema, 'the JSON schema is no JSON');
  return { type: 'json_schema', json_schema: { name: 'answer', schema: given, strict: true } };
}

function isEmpty(text: string | undefined): boolean {
  return text === undefined || text.trim() === '';
}

function parsed(text: string, problem: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(problem);
  }
}
