// Which backends run vision towers; with the others a model that has one serves text alone.

const backends: readonly string[] = ['cpu', 'cuda', 'reference', 'webgpu'];

export function runsTowers(backend: string): boolean {
  return backends.includes(backend);
}
