// Clients in Python, each with a program of cases in test/clients/python.

import { pythonCases } from '../support/clients.ts';
import { demoServer } from './demo-server.ts';

const url = demoServer();

for (const name of ['openai', 'anthropic', 'ollama', 'litellm', 'langchain', 'frameworks']) {
  pythonCases(`${name}_client`, url);
}
