// What servers are asked: long prompts that share their beginnings, each of which has one answer, down to the bits of its
// log-probabilities, whichever server computes it from whatever blocks.

import type { Chance } from '../chance.ts';

export interface Question {
  readonly name: string;
  readonly prompt: string;
  readonly seed: number;
}

export type Reply =
  | { readonly kind: 'answer'; readonly text: string; readonly cachedTokens: number }
  /** Nobody is there, or not for the whole of it. */
  | { readonly kind: 'away' }
  | { readonly kind: 'late' }
  | { readonly kind: 'refused'; readonly status: number; readonly body: string };

const WORDS = (
  'river stone lamp garden winter letter boat kitchen mountain paper sister window bread silver road ' +
  'morning bird teacher cloud bridge summer coat market story island apple horse candle forest song'
).split(' ');
/** Words of a topic's prompts: each begins like the shorter ones. */
const LENGTHS = [150, 450, 800];
const ANSWER_TOKENS = 12;
const LIMIT_MS = 90_000;

export function makeQuestions(topics: number, chance: Chance): Question[] {
  return Array.from({ length: topics }, (_, topic) => {
    const longest = Math.max(...LENGTHS);
    const words = Array.from({ length: longest }, () => chance.pick(WORDS));
    return LENGTHS.map((length) => ({
      name: `${topic}/${length}`,
      prompt: words.slice(0, length).join(' '),
      seed: 1000 * topic + length,
    }));
  }).flat();
}

export async function ask(url: string, { prompt, seed }: Question): Promise<Reply> {
  const settings = { max_tokens: ANSWER_TOKENS, temperature: 0.7, seed, ignore_eos: true, logprobs: 2 };
  try {
    const response = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt, ...settings }),
      signal: AbortSignal.timeout(LIMIT_MS),
    });
    const body = await response.text();
    return response.status === 200 ? readAnswer(body) : { kind: 'refused', status: response.status, body };
  } catch (error) {
    return (error as Error).name === 'TimeoutError' ? { kind: 'late' } : { kind: 'away' };
  }
}

interface Completion {
  readonly choices: readonly {
    readonly text: string;
    readonly logprobs: unknown;
    readonly finish_reason: string;
  }[];
  readonly usage: { readonly prompt_tokens_details?: { readonly cached_tokens?: number } };
}

function readAnswer(body: string): Reply {
  const { choices, usage } = JSON.parse(body) as Completion;
  return {
    kind: 'answer',
    text: JSON.stringify(choices.map(({ text, logprobs, finish_reason }) => [text, logprobs, finish_reason])),
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
  };
}

/** The answers of a server that nobody disturbs. */
export async function learn(url: string, questions: readonly Question[]): Promise<Map<Question, string>> {
  const answers = new Map<Question, string>();
  for (const question of questions) {
    const reply = await ask(url, question);
    if (reply.kind !== 'answer') throw new Error(`${question.name} has no answer: ${JSON.stringify(reply)}`);
    answers.set(question, reply.text);
  }
  return answers;
}
