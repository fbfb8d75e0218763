import { describe, expect, it } from 'vitest';
import {
  asTree,
  branchesOf,
  type Conversation,
  choosing,
  newConversation,
  shownTurns,
  type Turn,
  turnsUpTo,
  withTurn,
} from './conversation.ts';

const turn = (id: string, parentId?: string): Turn => ({
  id,
  ...(parentId === undefined ? {} : { parentId }),
  said: { by: 'user', text: id },
  answers: [],
});
const grown = (...turns: Turn[]): Conversation => turns.reduce(withTurn, newConversation());
const ids = (turns: readonly Turn[]) => turns.map(({ id }) => id).join(' ');

describe('branches of a conversation', () => {
  const a = turn('a');
  const a2 = turn('a2');
  const b = turn('b', 'a');
  const b2 = turn('b2', 'a');

  it('are all kept, and the newest is shown', () => {
    const conversation = grown(a, b, b2, a2);
    expect(ids(shownTurns(conversation))).toBe('a2');
    expect(conversation.turns).toHaveLength(4);
    expect(ids(branchesOf(conversation, a))).toBe('a a2');
    expect(ids(branchesOf(conversation, b2))).toBe('b b2');
  });

  it('are shown as they were left, when one comes back to them', () => {
    const conversation = grown(a, b, b2, a2);
    expect(ids(shownTurns(choosing(conversation, a)))).toBe('a b2');
    expect(ids(shownTurns(choosing(choosing(conversation, b), a)))).toBe('a b');
  });

  it('are answered by what was said before in the same branch alone', () => {
    expect(ids(turnsUpTo(grown(a, b, b2, a2), 'b2'))).toBe('a b2');
  });

  it('are one where a conversation was kept before there were any', () => {
    const { chosen: _, ...old } = { ...newConversation(), turns: [turn('a'), turn('b'), turn('c')] };
    expect(ids(shownTurns(asTree(old)))).toBe('a b c');
  });
});
