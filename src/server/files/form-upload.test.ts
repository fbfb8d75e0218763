import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import { expect, it } from 'vitest';
import { StoreError } from '../../store/database.ts';
import type { FileWriter } from '../../store/file-writer.ts';
import { receiveForm } from './form-upload.ts';

const boundary = 'boundary';

function formOf(content: string): FastifyRequest {
  const head = 'content-disposition: form-data; name="file"; filename="a.jsonl"';
  const body = `--${boundary}\r\n${head}\r\n\r\n${content}\r\n--${boundary}--\r\n`;
  const pieces = body.match(/[\s\S]{1,4096}/g) ?? [];
  return {
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
    body: Readable.from(pieces.map((piece) => Buffer.from(piece))),
  } as unknown as FastifyRequest;
}

it('an upload that the database refuses fails with the database’s reason, however long tidying up takes', async () => {
  const busy = new StoreError('busy', 'the database is locked');
  let discarded = 0;
  const writer = {
    bytes: 0,
    write: () => Promise.reject(busy),
    discard: async () => {
      await sleep(30);
      discarded++;
    },
  } as unknown as FileWriter;
  const received = receiveForm(formOf('x'.repeat(100_000)), { maxBytes: 1e6, begin: async () => writer });
  await expect(received).rejects.toBe(busy);
  expect(discarded).toBe(1);
});
