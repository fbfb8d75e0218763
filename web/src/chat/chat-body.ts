// The body of /v1/chat/completions for one lane of a conversation.

import type { Conversation, LaneSettings, Turn } from './conversation.ts';

const ALTERNATIVES = 5;

export function chatBody({ lanes, turns }: Conversation, lane: number): object {
  const settings = lanes[lane] as LaneSettings;
  return {
    model: settings.model,
    messages: [
      ...(settings.system.trim() === '' ? [] : [{ role: 'system', content: settings.system }]),
      ...turns.flatMap((turn, at) => messagesOf(turn, lane, at === turns.length - 1)),
    ],
    stream: true,
    stream_options: { include_usage: true },
    ...numbersOf(settings),
    ...(settings.probabilities ? { logprobs: true, top_logprobs: ALTERNATIVES } : {}),
    ...(settings.tools.trim() === '' ? {} : { tools: toolsOf(settings.tools) }),
  };
}

function messagesOf({ said, answers }: Turn, lane: number, last: boolean): object[] {
  if (said.by === 'tools' && said.lane !== lane) return [];
  const asked =
    said.by === 'user'
      ? [{ role: 'user', content: said.text }]
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

function toolsOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('the tools are no JSON; write a list as the OpenAI API takes it');
  }
}
