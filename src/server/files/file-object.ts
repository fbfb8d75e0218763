// A file as clients see it, and what they may ask of files.

import { z } from 'zod';
import type { FileRecord } from '../../store/file-store.ts';
import { pageShape } from '../http/list-page.ts';
import { rulesFor } from '../http/parse-body.ts';

export const INPUT_PURPOSE = 'batch';
export const OUTPUT_PURPOSE = 'batch_output';
/** Of files that conversations name. */
export const DATA_PURPOSE = 'user_data';
/** Of images. */
export const VISION_PURPOSE = 'vision';
export const conversationPurposes = [DATA_PURPOSE, VISION_PURPOSE] as const;

export const LARGEST_FILE_PAGE = 10_000;
const LEAST_EXPIRY_SECONDS = 3600;
const MOST_EXPIRY_SECONDS = 2_592_000;

export const expirySchema = z.strictObject({
  anchor: z.literal('created_at'),
  seconds: z.coerce.number().int().min(LEAST_EXPIRY_SECONDS).max(MOST_EXPIRY_SECONDS),
});

export const uploadSchema = z.object({
  purpose: z.enum([INPUT_PURPOSE, ...conversationPurposes], {
    error: `must be ${INPUT_PURPOSE}, the input of a batch, ${DATA_PURPOSE}, a text or an image for conversations, or ${VISION_PURPOSE}, an image`,
  }),
  expires_after: expirySchema.optional(),
});
export const uploadRules = rulesFor(uploadSchema);

const filePageSchema = z.object({
  ...pageShape(LARGEST_FILE_PAGE),
  purpose: z.string().optional(),
});
export const filePageRules = rulesFor(filePageSchema);

export const fileSchema = z.strictObject({
  id: z.string(),
  object: z.literal('file'),
  bytes: z.int(),
  created_at: z.int(),
  expires_at: z.int().optional(),
  filename: z.string(),
  purpose: z.enum([INPUT_PURPOSE, OUTPUT_PURPOSE, ...conversationPurposes]),
  status: z.literal('processed'),
  status_details: z.null(),
});

export const fileDeletedSchema = z.strictObject({
  id: z.string(),
  object: z.literal('file'),
  deleted: z.literal(true),
});

export function fileObject({ id, purpose, name, bytes, createdMs, expiresMs }: FileRecord): object {
  return {
    id,
    object: 'file',
    bytes,
    created_at: Math.floor(createdMs / 1000),
    ...(expiresMs === undefined ? {} : { expires_at: Math.floor(expiresMs / 1000) }),
    filename: name,
    purpose,
    status: 'processed',
    status_details: null,
  };
}

export function expiryOf(nowMs: number, seconds: number | undefined, keepMs: number): number | undefined {
  const ms = seconds === undefined ? keepMs : seconds * 1000;
  return ms === Number.POSITIVE_INFINITY ? undefined : nowMs + ms;
}
