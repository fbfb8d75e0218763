// A part of a list, as clients ask for it: so many rows behind an id, the newest or the oldest first.

export interface PageQuery {
  /** The id behind which it goes on. */
  readonly after?: string | undefined;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
}

export interface Page<Row> {
  readonly rows: readonly Row[];
  readonly hasMore: boolean;
}

/** From one row more than was asked for, where there are so many. */
export function pageOf<Row>(rows: readonly Row[], limit: number): Page<Row> {
  return { rows: rows.slice(0, limit), hasMore: rows.length > limit };
}
