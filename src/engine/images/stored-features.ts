// What vision towers have made of images, on the disk: an image is not computed again because the server was restarted, or others
// needed its room. One record an image, beside the model's KV blocks and under the same limits, seal and tenants.

import { createHash } from 'node:crypto';
import type { BlockTier } from '../../block-store/block-tier.ts';
import type { ImageFeatures } from '../../compute/backend.ts';
import { joinedFloats } from '../../compute/join-arrays.ts';
import { tenantOf } from '../tiers/block-keys.ts';
import { featuresProblem } from './features-problem.ts';
import type { VisionLimits } from './prompt-images.ts';

export class StoredFeatures {
  readonly #disk: BlockTier;
  readonly #identity: string;
  readonly #vision: VisionLimits;
  /** Nothing of these is kept any more. */
  readonly #removed = new Set<string>();

  /** `identity`: of all that features depend on besides the image. */
  constructor(disk: BlockTier, identity: string, vision: VisionLimits) {
    this.#disk = disk;
    this.#identity = identity;
    this.#vision = vision;
  }

  /** `key`: a salt, a new line and what is known of the image. */
  has(key: string): boolean {
    return !this.#removed.has(tenantIn(key)) && this.#disk.find([this.#nameOf(key)]).blocks === 1;
  }

  /** Undefined where they cannot be had whole. Never rejects. */
  async read(key: string): Promise<ImageFeatures | undefined> {
    const read = await this.#disk.read([this.#nameOf(key)]).catch(() => []);
    const [bytes] = read;
    const arrays = 1 + this.#vision.deepstackLayers;
    if (bytes === undefined || bytes.length % (arrays * Float32Array.BYTES_PER_ELEMENT) !== 0)
      return undefined;
    const floats = new Float32Array(bytes.slice().buffer);
    const length = floats.length / arrays;
    const [embeddings = floats, ...deepstack] = Array.from({ length: arrays }, (_, array) =>
      floats.slice(array * length, (array + 1) * length),
    );
    const features = { embeddings, deepstack };
    return featuresProblem(features, this.#vision) === undefined ? features : undefined;
  }

  /** Behind; dropped where the disk takes no more for now. */
  write(key: string, { embeddings, deepstack }: ImageFeatures): void {
    const tenant = tenantIn(key);
    if (this.#removed.has(tenant)) return;
    const { buffer } = joinedFloats([embeddings, ...deepstack]);
    this.#disk.write(this.#nameOf(key), tenant, new Uint8Array(buffer));
  }

  /** What is there already is deleted with the tenant's blocks. */
  forget(tenant: string): void {
    this.#removed.add(tenant);
  }

  #nameOf(key: string): Buffer {
    return createHash('sha256')
      .update(JSON.stringify(['chairlift image', this.#identity, key]))
      .digest();
  }
}

function tenantIn(key: string): string {
  return tenantOf(key.slice(0, key.indexOf('\n')));
}
