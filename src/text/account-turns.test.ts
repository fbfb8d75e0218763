import { describe, expect, it } from 'vitest';
import { AccountTurns } from './account-turns.ts';

function drain(turns: AccountTurns<string>): (string | undefined)[] {
  const order: (string | undefined)[] = [];
  while (!turns.empty) order.push(turns.take());
  return order;
}

describe('turns of accounts', () => {
  it('go around, whoever has how much, and keep the order within an account', () => {
    const turns = new AccountTurns<string>();
    for (const job of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) turns.add(job.slice(0, 1), job);
    expect(drain(turns)).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  });

  it('put an account that was just served behind those that wait', () => {
    const turns = new AccountTurns<string>();
    turns.add('a', 'a1');
    turns.add('b', 'b1');
    expect(turns.take()).toBe('a1');
    turns.add('a', 'a2');
    expect(drain(turns)).toEqual(['b1', 'a2']);
  });

  it('pass over a job that was removed, and an account that has none left', () => {
    const turns = new AccountTurns<string>();
    for (const job of ['a1', 'a2', 'b1', 'c1']) turns.add(job.slice(0, 1), job);
    turns.remove('a', 'a1');
    turns.remove('b', 'b1');
    turns.remove('c', 'never added');
    expect(drain(turns)).toEqual(['a2', 'c1']);
    expect(turns.take()).toBeUndefined();
  });
});
