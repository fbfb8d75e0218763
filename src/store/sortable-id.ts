// Ids that sort by when they were made: a page of a list goes on behind an id, also where what had it is gone.

import { randomBytes } from 'node:crypto';

/** Hexadecimal digits of a time in milliseconds; enough until the year 10889. */
const TIME_DIGITS = 12;

export function sortableId(mark: string, nowMs: number): string {
  return `${mark}${Math.floor(nowMs).toString(16).padStart(TIME_DIGITS, '0')}${randomBytes(12).toString('hex')}`;
}
