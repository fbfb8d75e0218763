import { describe, expect, it } from 'vitest';
import { inputLine, startBatchServer } from '../../../test/support/batch-server.ts';

const keys = { boss: { admin: true }, ann: {}, bob: {} };
const body = { messages: [{ role: 'user', content: 'Hello, who are you?' }], max_tokens: 4 };
const several = (count: number) => Array.from({ length: count }, (_, n) => inputLine(`line-${n}`, body));

describe('/admin/batches', () => {
  it('has those of all keys by name, page by page, and no other key may see it', async () => {
    const server = await startBatchServer(keys);
    const first = await server.submit('ann', several(2));
    await server.ended('ann', first.id);
    const second = await server.submit('bob', several(1));
    await server.ended('bob', second.id);
    const page = (await server.call('boss', 'GET', '/admin/batches?limit=1')).json();
    expect(page).toMatchObject({ data: [{ id: second.id, key_name: 'bob' }], has_more: true });
    const rest = (await server.call('boss', 'GET', `/admin/batches?after=${page.last_id}`)).json();
    expect(rest).toMatchObject({
      data: [{ id: first.id, key_name: 'ann', request_counts: { total: 2, completed: 2 } }],
      has_more: false,
    });
    // What is in the files stays between the key and the server.
    const { output_file_id: output } = rest.data[0];
    expect((await server.call('boss', 'GET', `/v1/files/${output}/content`)).statusCode).toBe(404);
    expect((await server.call('ann', 'GET', '/admin/batches')).statusCode).toBe(403);
    expect((await server.call('ann', 'POST', `/admin/batches/${second.id}/cancel`)).statusCode).toBe(403);
  });

  it('calls off a batch of any key, as long as it can be', async () => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const server = await startBatchServer(keys, { pool: { loading: () => gate } });
    const { id } = await server.submit('ann', several(3));
    const cancel = () => server.call('boss', 'POST', `/admin/batches/${id}/cancel`);
    expect((await cancel()).json()).toMatchObject({ id, status: 'cancelling', key_name: 'ann' });
    open();
    await server.until('ann', id, ({ status }) => status === 'cancelled');
    expect((await cancel()).statusCode).toBe(400);
    expect((await server.call('boss', 'POST', '/admin/batches/batch_none/cancel')).statusCode).toBe(404);
  });
});
