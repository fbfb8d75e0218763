// Lists that clients read page by page, as in OpenAI's API.

import { z } from 'zod';
import type { Page } from '../../store/page.ts';

const orders = ['asc', 'desc'] as const;

export const pageShape = (most: number) => ({
  after: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(most).optional(),
  order: z.enum(orders).optional(),
});

export const listSchema = <Item extends z.ZodType>(item: Item) =>
  z.strictObject({
    object: z.literal('list'),
    data: z.array(item),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  });

export function listOf<Row extends { readonly id: string }>(
  { rows, hasMore }: Page<Row>,
  show: (row: Row) => object,
): object {
  return {
    object: 'list',
    data: rows.map(show),
    first_id: rows[0]?.id ?? null,
    last_id: rows.at(-1)?.id ?? null,
    has_more: hasMore,
  };
}
