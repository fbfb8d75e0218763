// Writes small safetensors files for tests.

export interface SafetensorsWriterTensor {
  readonly name: string;
  readonly dtype: string;
  /** Outermost dimension first. */
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

export function writeSafetensors(tensors: readonly SafetensorsWriterTensor[]): Buffer {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let offset = 0;
  for (const { name, dtype, shape, bytes } of tensors) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
    offset += bytes.length;
  }
  return joinSafetensors(header, Buffer.concat(tensors.map(({ bytes }) => bytes)));
}

/** A file of any header, true to its data or not. */
export function joinSafetensors(header: unknown, data: Uint8Array): Buffer {
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, data]);
}

export function float32Bytes(values: readonly number[]): Uint8Array {
  return new Uint8Array(Float32Array.from(values).buffer);
}
