import { describe, expect, it } from 'vitest';
import { start } from '../../../test/support/keyed-server.ts';
import type { ListedModel } from './models.ts';

describe('the list of models for admins', () => {
  it('says what a model is, before it is loaded, too, and whether it fits', async () => {
    const { app } = await start();
    const { data } = (await app.inject('/admin/models')).json<{ data: ListedModel[] }>();
    const [model] = data;
    expect(model?.about).toMatchObject({ architecture: 'llama', contextLength: expect.any(Number) });
    expect(model?.about?.sizeBytes).toBeGreaterThan(0);
    expect(model?.fits).toBe(true);
    expect(model).not.toHaveProperty('problem');
  });
});
