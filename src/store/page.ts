// Pages of a list, and ids that sort by creation time: a page may follow an id whose row is gone.

import { randomBytes } from 'node:crypto';

export interface PageQuery {
  /** The page begins after this id. */
  readonly after?: string | undefined;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
}

export interface Page<Row> {
  readonly rows: readonly Row[];
  readonly hasMore: boolean;
}

/** Takes one row more than the limit, where there are that many. */
export function pageOf<Row>(rows: readonly Row[], limit: number): Page<Row> {
  return { rows: rows.slice(0, limit), hasMore: rows.length > limit };
}

/** Hexadecimal digits of a time in milliseconds; enough until the year 10889. */
const TIME_DIGITS = 12;

export function sortableId(mark: string, nowMs: number): string {
  return `${mark}${Math.floor(nowMs).toString(16).padStart(TIME_DIGITS, '0')}${randomBytes(12).toString('hex')}`;
}
