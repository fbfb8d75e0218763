// Models that clients have made of others with /api/create and /api/copy: a name, a system prompt, messages and parameters on
// top of a model that is served. They are names of this protocol alone, kept in a file of the models folder.

import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';

const FILE = 'ollama-models.json';

const createdModel = z.object({
  name: z.string(),
  /** The name of the served model. */
  from: z.string(),
  system: z.string().optional(),
  template: z.string().optional(),
  messages: z.array(z.looseObject({ role: z.string(), content: z.string() })).optional(),
  parameters: z.record(z.string(), z.unknown()).optional(),
  license: z.array(z.string()).optional(),
  createdMs: z.number(),
});

export type CreatedModel = z.infer<typeof createdModel>;

export class CreatedModels {
  readonly #path: string | undefined;
  readonly #models = new Map<string, CreatedModel>();

  /** Without a folder none can be made. */
  constructor(folder: string | undefined) {
    this.#path = folder === undefined ? undefined : join(folder, FILE);
    for (const model of this.#read()) this.#models.set(model.name, model);
  }

  get possible(): boolean {
    return this.#path !== undefined;
  }

  list(): readonly CreatedModel[] {
    return [...this.#models.values()];
  }

  find(name: string): CreatedModel | undefined {
    return this.#models.get(name);
  }

  save(model: CreatedModel): void {
    this.#models.set(model.name, model);
    this.#write();
  }

  remove(name: string): boolean {
    const removed = this.#models.delete(name);
    if (removed) this.#write();
    return removed;
  }

  #read(): readonly CreatedModel[] {
    if (this.#path === undefined) return [];
    try {
      return z.array(createdModel).parse(JSON.parse(readFileSync(this.#path, 'utf8')));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw new Error(`${this.#path} is no list of models that /api/create made; mend or remove it`, {
        cause: error,
      });
    }
  }

  /** By a rename: a server that is killed meanwhile leaves the old file or the new one. */
  #write(): void {
    if (this.#path === undefined) return;
    // The folder is made with the first model that is pulled, or here.
    mkdirSync(dirname(this.#path), { recursive: true });
    const next = `${this.#path}.new`;
    writeFileSync(next, JSON.stringify(this.list(), null, 2));
    renameSync(next, this.#path);
  }
}
