// A request for each route that answers with text, vectors or scores, for the OpenAPI document. They work as they stand where
// the default model can do what they ask for.

const messages = [{ role: 'user', content: 'Hello!' }];
const chat = { messages, max_tokens: 100, stream: false };
const text = { prompt: 'Once upon a time', max_tokens: 50, stream: false };
const inputs = { input: ['The fox is quick.', 'The owl is awake.'] };
const ranking = { query: 'Who is awake?', documents: ['The fox is quick.', 'The owl is awake.'] };
const named = { model: 'default' };

/** By the path of the route. */
export const requestExamples: Readonly<Record<string, object>> = {
  '/v1/chat/completions': chat,
  '/v1/batch/chat/completions': chat,
  '/v1/chat/completions/input_tokens': { messages },
  '/apply-template': { messages },
  '/v1/completions': text,
  '/v1/batch/completions': text,
  '/completions': text,
  '/completion': { prompt: 'Once upon a time', n_predict: 50 },
  '/v1/embeddings': inputs,
  '/v1/batch/embeddings': inputs,
  '/embeddings': inputs,
  '/embedding': { content: 'The fox is quick.' },
  '/v1/rerank': ranking,
  '/v1/reranking': ranking,
  '/v2/rerank': ranking,
  '/v1/score': { text_1: 'Who is awake?', text_2: ['The fox is quick.', 'The owl is awake.'] },
  '/classify': inputs,
  '/pooling': inputs,
  '/v1/messages': { messages, max_tokens: 100 },
  '/v1/messages/count_tokens': { messages },
  '/v1/responses': { input: 'Hello!', max_output_tokens: 100 },
  '/v1/responses/input_tokens': { input: 'Hello!' },
  '/tokenize': { content: 'Hello!' },
  '/detokenize': { tokens: [72, 101, 108] },
  '/infill': { input_prefix: 'def add(a, b):\n    return ', input_suffix: '\n', n_predict: 20 },
  '/api/chat': { ...named, messages, stream: false },
  '/api/generate': { ...named, prompt: 'Once upon a time', stream: false, options: { num_predict: 50 } },
  '/api/embed': { ...named, input: 'The fox is quick.' },
  '/api/embeddings': { ...named, prompt: 'The fox is quick.' },
  '/api/show': named,
};
