pip install 'ai-dynamo==1.0.2'
