// A conversation as it is stored: turns, each with an answer in every lane. Lanes are models or settings that are compared.

export interface LaneSettings {
  readonly model: string;
  readonly system: string;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly minP?: number;
  readonly maxTokens?: number;
  readonly seed?: number;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  readonly repetitionPenalty?: number;
  readonly probabilities: boolean;
  /** JSON in OpenAI's format, as typed. */
  readonly tools: string;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

interface TokenChance {
  readonly text: string;
  readonly logprob: number;
}

export interface Token extends TokenChance {
  readonly others: readonly TokenChance[];
}

export interface Answer {
  readonly state: 'streaming' | 'done' | 'stopped' | 'failed';
  readonly model: string;
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly ToolCall[];
  readonly tokens: readonly Token[];
  readonly problem?: string;
  readonly finish?: string;
  readonly requestId?: string;
  readonly firstTokenMs?: number;
  readonly totalMs?: number;
  readonly promptTokens?: number;
  readonly cachedTokens?: number;
  readonly answerTokens?: number;
}

export type Said =
  | { readonly by: 'user'; readonly text: string }
  | { readonly by: 'tools'; readonly lane: number; readonly results: readonly ToolResult[] };

export interface ToolResult {
  readonly callId: string;
  readonly text: string;
}

export interface Turn {
  readonly id: string;
  readonly said: Said;
  /** null where the lane was added later, or is not asked. */
  readonly answers: readonly (Answer | null)[];
}

export interface Conversation {
  readonly id: string;
  readonly changedMs: number;
  readonly lanes: readonly LaneSettings[];
  readonly turns: readonly Turn[];
}

export const plainSettings: LaneSettings = { model: '', system: '', probabilities: false, tools: '' };

export function newConversation(lanes: readonly LaneSettings[] = [plainSettings]): Conversation {
  return { id: randomId(), changedMs: Date.now(), lanes, turns: [] };
}

/** Pages without TLS have no randomUUID. */
export function randomId(): string {
  return [...crypto.getRandomValues(new Uint8Array(8))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
}

export function titleOf({ turns }: Conversation): string {
  const first = turns.find(({ said }) => said.by === 'user');
  if (first?.said.by !== 'user') return 'New conversation';
  return first.said.text.trim().slice(0, 80) || 'New conversation';
}

export function withAnswer(turn: Turn, lane: number, answer: Answer): Turn {
  const answers = [...turn.answers];
  while (answers.length <= lane) answers.push(null);
  answers[lane] = answer;
  return { ...turn, answers };
}
