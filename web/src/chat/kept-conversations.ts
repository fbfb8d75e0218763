// Conversations in this browser's storage, an entry each; never with a key.

import { type Answer, asTree, type Conversation, type KeptConversation, type Turn } from './conversation.ts';

const PREFIX = 'chairlift.chat.';

export function readConversations(): Conversation[] {
  const found: Conversation[] = [];
  for (let at = 0; at < localStorage.length; at++) {
    const name = localStorage.key(at);
    if (name?.startsWith(PREFIX)) found.push(...parsed(localStorage.getItem(name)));
  }
  return found.sort((a, b) => b.changedMs - a.changedMs);
}

/** Entries that cannot be read are left alone. */
function parsed(text: string | null): Conversation[] {
  const conversation = parseConversation(text ?? '');
  return conversation === undefined ? [] : [conversation];
}

export function parseConversation(text: string): Conversation | undefined {
  try {
    const value = JSON.parse(text) as KeptConversation;
    const whole = typeof value.id === 'string' && Array.isArray(value.turns) && Array.isArray(value.lanes);
    return whole && value.lanes.length > 0 && isTree(value.turns) ? asTree(value) : undefined;
  } catch {
    return undefined;
  }
}

/** Every turn has an id of its own, and comes after the one it follows: a circle would be shown for ever. */
function isTree(turns: readonly Turn[]): boolean {
  const known = new Set<string>();
  return turns.every(({ id, parentId, said, answers }) => {
    const isOwn = typeof id === 'string' && id !== '' && !known.has(id);
    const follows = parentId === undefined || known.has(parentId);
    known.add(id);
    return isOwn && follows && Array.isArray(answers) && typeof said === 'object' && said !== null;
  });
}

/** Returns false where there is no room. Others stay: the reader deletes what is not needed. */
export function keepConversation(conversation: Conversation): boolean {
  const text = JSON.stringify(storedForm(conversation));
  try {
    localStorage.setItem(PREFIX + conversation.id, text);
    return true;
  } catch {
    return false;
  }
}

export function storedForm(conversation: Conversation): Conversation {
  return {
    ...conversation,
    turns: conversation.turns.map((turn) => ({ ...turn, answers: turn.answers.map(light) })),
  };
}

/** Hears what other tabs store and delete. Returns how to stop. */
export function followOtherTabs(
  onKept: (conversation: Conversation) => void,
  onForgotten: (id: string) => void,
): () => void {
  const hear = ({ key, newValue }: StorageEvent) => {
    if (!key?.startsWith(PREFIX)) return;
    if (newValue === null) onForgotten(key.slice(PREFIX.length));
    else parsed(newValue).forEach(onKept);
  };
  addEventListener('storage', hear);
  return () => removeEventListener('storage', hear);
}

export function forgetConversation(id: string): void {
  localStorage.removeItem(PREFIX + id);
}

/** Probabilities take a hundred times the room of the text; nothing that is read back is still streaming. */
function light(answer: Answer | null): Answer | null {
  if (answer === null) return null;
  const running = answer.state === 'streaming' || answer.state === 'waiting';
  return { ...answer, tokens: [], state: running ? 'stopped' : answer.state };
}
