"""Carries Dynamo's events between processes on this machine.

usage: broker.py FROM TO    both as ipc://PATH

Publishers connect to FROM and subscribers to TO. Without it each worker opens
ports of its own for its events, on every address of the machine.
"""

import sys

import zmq

context = zmq.Context()
publishers, subscribers = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
publishers.bind(sys.argv[1])
subscribers.bind(sys.argv[2])
zmq.proxy(publishers, subscribers)
