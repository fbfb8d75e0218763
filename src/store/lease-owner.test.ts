import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { isGone, newLeaseOwner } from './lease-owner.ts';

const [home] = newLeaseOwner().split(':');

describe('the owner of a lease', () => {
  it('is another for every server, and none of this process is gone', () => {
    const [one, other] = [newLeaseOwner(), newLeaseOwner()];
    expect(one).not.toBe(other);
    expect([isGone(one), isGone(other)]).toEqual([false, false]);
  });

  it('is gone with its process, also where another process has its number now', () => {
    const { pid } = spawnSync('true');
    expect(isGone(`${home}:${pid}:a:b`)).toBe(true);
    expect(isGone(`${home}:${process.pid}:a:b`)).toBe(true);
    expect(isGone(`${home}:${process.ppid}:a:b`)).toBe(false);
  });

  it('of another container on this machine may be there, whatever its number', () => {
    expect(isGone(`${home}1:${process.pid}:a:b`)).toBe(false);
  });

  it('of another machine, or of a program that named it otherwise, may be there', () => {
    expect(isGone(`another-${home}:${process.pid}:a:b`)).toBe(false);
    expect(isGone(`${home}:8000`)).toBe(false);
  });
});
