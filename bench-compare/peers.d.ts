// What the comparison uses of a package that is installed only where somebody compares with it.

declare module 'node-llama-cpp' {
  interface LlamaContextSequence {
    readonly tokenPredictions: { readonly validated: number; readonly refuted: number };
    clearHistory(): Promise<void>;
    evaluate(
      tokens: number[],
      options: { temperature: number; yieldEogToken: boolean },
    ): AsyncGenerator<number, void, void>;
    controlledEvaluate(
      input: readonly (readonly [token: number, options: { generateNext: { logits: true } }])[],
    ): Promise<{ next: { logits: Map<number, number> } }[]>;
  }
  class InputLookupTokenPredictor {
    constructor(options: { readonly predictionLength: { readonly max: number } });
    updateInputTokens(tokens: number[]): void;
  }
  interface LlamaContext {
    getSequence(options?: {
      readonly tokenPredictor: InputLookupTokenPredictor | undefined;
    }): LlamaContextSequence;
  }
  interface LlamaModel {
    createContext(options: object): Promise<LlamaContext>;
  }
  interface Llama {
    readonly systemInfo: string;
    readonly llamaCppRelease: { readonly release: string };
    readonly buildType: string;
    loadModel(options: { modelPath: string; gpuLayers: number }): Promise<LlamaModel>;
    dispose(): Promise<void>;
  }
  const LlamaLogLevel: { readonly error: string };
  function getLlama(options: object): Promise<Llama>;
}
