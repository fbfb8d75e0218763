// A conversation as it is stored: a tree of turns, each with an answer in every lane. A turn that is edited or answered again gets a
// branch of its own, and nothing is lost. Lanes are models or settings that are compared.

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
  /** A JSON schema that answers keep to, as typed. */
  readonly schema?: string;
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
  /** `waiting`: the server is away, and the answer goes on when it is back. */
  readonly state: 'streaming' | 'waiting' | 'done' | 'stopped' | 'failed';
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
  /** As the server measures it, also while the answer grows. */
  readonly tokensPerSecond?: number;
}

/** A file of text that goes with a message. */
export interface AttachedFile {
  readonly name: string;
  readonly text: string;
}

/** An image that goes with a message; see pictures.ts. */
export interface AttachedImage {
  readonly id: string;
  readonly name: string;
  /** A `data:` URL. */
  readonly thumbnail: string;
  readonly width: number;
  readonly height: number;
}

export interface Attached {
  readonly files: readonly AttachedFile[];
  readonly images: readonly AttachedImage[];
}

export type UserSaid = { readonly by: 'user'; readonly text: string } & Partial<Attached>;

export type Said =
  | UserSaid
  | { readonly by: 'tools'; readonly lane: number; readonly results: readonly ToolResult[] };

export interface ToolResult {
  readonly callId: string;
  readonly text: string;
}

export interface Turn {
  readonly id: string;
  /** The turn before it; the first ones have none. Turns with the same one are branches. */
  readonly parentId?: string;
  readonly said: Said;
  /** null where the lane was added later, or is not asked. */
  readonly answers: readonly (Answer | null)[];
}

export interface Conversation {
  readonly id: string;
  /** Given by the reader; otherwise the first message is the title. */
  readonly name?: string;
  readonly changedMs: number;
  readonly lanes: readonly LaneSettings[];
  /** Of all branches, in the order in which they began. */
  readonly turns: readonly Turn[];
  /** Which branch is shown, by the turn before it; otherwise the newest. */
  readonly chosen: Readonly<Record<string, string>>;
}

export function userSaid(text: string, { files, images }: Attached): UserSaid {
  return {
    by: 'user',
    text,
    ...(files.length === 0 ? {} : { files }),
    ...(images.length === 0 ? {} : { images }),
  };
}

const FIRST = '';

export const plainSettings: LaneSettings = { model: '', system: '', probabilities: false, tools: '' };

export function newConversation(lanes: readonly LaneSettings[] = [plainSettings]): Conversation {
  return { id: randomId(), changedMs: Date.now(), lanes, turns: [], chosen: {} };
}

/** Pages without TLS have no randomUUID. */
export function randomId(): string {
  return [...crypto.getRandomValues(new Uint8Array(8))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
}

export function titleOf({ name, turns }: Conversation): string {
  if (name !== undefined && name.trim() !== '') return name;
  const first = turns.find(({ said }) => said.by === 'user');
  if (first?.said.by !== 'user') return 'New conversation';
  const { text, files = [], images = [] } = first.said;
  return text.trim().slice(0, 80) || [...images, ...files][0]?.name || 'New conversation';
}

/** The turns of the branch that is shown. */
export function shownTurns({ turns, chosen }: Conversation): Turn[] {
  const byParent = new Map<string, Turn[]>();
  for (const turn of turns) {
    const parent = turn.parentId ?? FIRST;
    byParent.set(parent, [...(byParent.get(parent) ?? []), turn]);
  }
  const shown: Turn[] = [];
  for (let parent = FIRST; ; ) {
    const branches = byParent.get(parent) ?? [];
    const next = branches.find(({ id }) => id === chosen[parent]) ?? branches.at(-1);
    if (next === undefined) return shown;
    shown.push(next);
    parent = next.id;
  }
}

/** A turn and what was said before it. */
export function turnsUpTo({ turns }: Conversation, turnId: string): Turn[] {
  const byId = new Map(turns.map((turn) => [turn.id, turn]));
  const path: Turn[] = [];
  for (let turn = byId.get(turnId); turn !== undefined; turn = byId.get(turn.parentId ?? FIRST))
    path.push(turn);
  return path.reverse();
}

/** The branches that begin where a turn does, itself among them. */
export function branchesOf({ turns }: Conversation, { parentId }: Turn): Turn[] {
  return turns.filter((turn) => turn.parentId === parentId);
}

/** With a turn more, which is shown. */
export function withTurn(conversation: Conversation, turn: Turn): Conversation {
  const { turns } = conversation;
  return choosing({ ...conversation, changedMs: Date.now(), turns: [...turns, turn] }, turn);
}

export function choosing(conversation: Conversation, { id, parentId }: Turn): Conversation {
  return { ...conversation, chosen: { ...conversation.chosen, [parentId ?? FIRST]: id } };
}

/** Conversations of older versions had one branch: each turn followed the one before it in the list. */
export type KeptConversation = Omit<Conversation, 'chosen'> & Partial<Conversation>;

export function asTree(conversation: KeptConversation): Conversation {
  const { chosen } = conversation;
  if (chosen !== undefined) return { ...conversation, chosen };
  const turns = conversation.turns.map((turn, at, all) => {
    const parentId = all[at - 1]?.id;
    return parentId === undefined ? turn : { ...turn, parentId };
  });
  return { ...conversation, turns, chosen: {} };
}

export function withAnswer(turn: Turn, lane: number, answer: Answer): Turn {
  const answers = [...turn.answers];
  while (answers.length <= lane) answers.push(null);
  answers[lane] = answer;
  return { ...turn, answers };
}
