import { describe, expect, it } from 'vitest';
import { IN_MEMORY, StoreError } from '../../store/database.ts';
import { openDatabase } from '../../store/open-database.ts';
import { ResponseStore } from '../../store/response-store.ts';
import { defaultSettings } from '../settings.ts';
import type { ConversationItem } from './items.ts';
import { KeptResponses } from './kept-responses.ts';

const item: ConversationItem = {
  id: 'msg_1',
  type: 'message',
  status: 'completed',
  role: 'user',
  content: [{ type: 'input_text', text: 'a' }],
};
const response = { id: 'resp_1', previousId: undefined, body: {}, input: [item], output: [] };

describe('while the database cannot be used', () => {
  it('an answer is given all the same, and what needs it is answered 503 without a word of where it lies', async () => {
    const database = await openDatabase(IN_MEMORY);
    const fail = () => {
      throw new StoreError('busy', '/secret/place.db is locked');
    };
    const locked = {
      ...database,
      change: fail,
      tables: new Proxy({}, { get: fail }),
    } as unknown as typeof database;
    const responses = new ResponseStore<ConversationItem>(locked, { keepMs: 1e9, maxBytes: 1e9 }, () => {});
    const kept = new KeptResponses({ responses, settings: defaultSettings });
    const logged: unknown[] = [];
    const log = { error: (...words: unknown[]) => logged.push(words) };
    expect(await kept.save('key_a', response, log as never)).toBe(false);
    expect(logged).toHaveLength(1);
    const attempts = [
      kept.find('key_a', 'resp_1'),
      kept.remove('key_a', 'resp_1'),
      kept.history('key_a', 'resp_1'),
      kept.items('key_a', ['msg_1']),
      kept.givenFor('key_a', 'resp_1', 'resp_0'),
    ];
    for (const attempt of attempts) {
      await expect(attempt).rejects.toMatchObject({ status: 503, code: 'store_unavailable' });
      await expect(attempt).rejects.not.toThrow(/secret/);
    }
    await responses.close();
    database.close();
  });
});

describe('a conversation', () => {
  it('may be as large as a body, and no larger', async () => {
    const database = await openDatabase(IN_MEMORY);
    const responses = new ResponseStore<ConversationItem>(database, { keepMs: 1e9, maxBytes: 1e9 }, () => {});
    const images = { ...defaultSettings.images, maxTotalBytes: 0 };
    const settings = { ...defaultSettings, bodyLimitBytes: 10, images };
    const kept = new KeptResponses({ responses, settings });
    expect(await kept.save('key_a', response, { error: () => {} } as never)).toBe(true);
    await expect(kept.history('key_a', 'resp_1')).rejects.toMatchObject({ param: 'previous_response_id' });
    await expect(kept.items('key_a', ['msg_1'])).rejects.toMatchObject({ status: 400, param: 'input' });
    await responses.close();
    database.close();
  });
});
