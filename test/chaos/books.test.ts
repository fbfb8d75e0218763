import { describe, expect, it } from 'vitest';
import type { Account } from './accounts.ts';
import { Books, noTokens, overBurst } from './books.ts';

const account: Account = { name: 'somebody', id: 'a', key: 'k', limited: false, role: 'any' };
const usage = { promptTokens: 10, completionTokens: 5 };
const charged = (promptTokens: number, completionTokens: number) => ({
  requests: 1,
  promptTokens,
  completionTokens,
});

describe('the books', () => {
  it('are exact where a client received the end', () => {
    const books = new Books();
    books.exact('a', 'one', usage, 0, 1000);
    expect(books.problems(account, charged(10, 5))).toEqual([]);
    expect(books.problems(account, charged(10, 4))[0]).toContain('4 completionTokens are charged');
    expect(books.problems(account, charged(11, 5))[0]).toContain('11 promptTokens are charged');
  });

  it('have bounds where a client left: what was sent, and what the whole answer takes', () => {
    const books = new Books();
    const least = { ...noTokens, completionTokens: 2 };
    books.enter({ accountId: 'a', what: 'one', startedMs: 0, endedMs: 1000, least, most: usage });
    for (const tokens of [2, 5]) expect(books.problems(account, charged(0, tokens))).toEqual([]);
    for (const tokens of [1, 6]) expect(books.problems(account, charged(0, tokens))).toHaveLength(1);
  });

  it('forgive a killed server what it could not have written, and no more', () => {
    const books = new Books();
    books.exact('a', 'long ago', usage, 0, 1000);
    books.exact('a', 'just now', usage, 0, 59_500);
    books.lost(60_000);
    expect(books.problems(account, charged(10, 5))).toEqual([]);
    expect(books.problems(account, charged(0, 0))).toHaveLength(2);
  });

  it('know a day’s budget', () => {
    const books = new Books();
    books.exact('a', 'one', usage, 0, 1000);
    expect(books.problems({ ...account, dailyTokens: 15 }, charged(10, 5))).toEqual([]);
    expect(books.problems({ ...account, dailyTokens: 14 }, charged(10, 5))[0]).toContain(
      '15 tokens were used of 14',
    );
  });

  it('count the minute afresh for each life of the server', () => {
    const books = new Books();
    const limited = { ...account, tokensPerMinute: 15 };
    books.lifeBegan(0);
    books.exact('a', 'one', usage, 1000, 2000);
    books.lifeBegan(3000);
    books.exact('a', 'one', usage, 4000, 5000);
    expect(books.problems(limited, charged(20, 10))).toEqual([]);
    books.exact('a', 'one', usage, 5000, 6000);
    expect(books.problems(limited, charged(30, 15))[0]).toContain('30 within');
  });
});

describe('a burst', () => {
  const spent = (...tokens: number[]) => tokens.map((count, at) => ({ startedMs: 1000 * at, tokens: count }));

  it('is as much as a minute allows, and what has come since', () => {
    expect(overBurst(spent(30, 30), 60, 'tokens')).toBeUndefined();
    expect(overBurst(spent(30, 30, 3), 60, 'tokens')).toBeUndefined();
    expect(overBurst(spent(30, 30, 30), 60, 'tokens')).toContain('90 within');
  });

  it('may be one request that is larger, and nothing beside it', () => {
    expect(overBurst(spent(100), 60, 'tokens')).toBeUndefined();
    expect(overBurst(spent(100, 30), 60, 'tokens')).toBeDefined();
  });
});
