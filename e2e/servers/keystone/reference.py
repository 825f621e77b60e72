#!/usr/bin/python3
"""Answers questions about policy files with the real oslo.policy.

Reads one JSON object per line and writes one per line:

  {"file": TEXT, "keystone": BOOL, "questions": [{"rule": NAME, "target": {}, "credentials": {}}]}
      -> {"loads": BOOL, "answers": ["allow" | "deny" | "error"]}
  {"parse": [BASE64]}
      -> {"parsed": [null | {NAME: CHECK}]}
  {"shipped": true}
      -> {"rules": [{"name": NAME, "rule": TEXT, "former": TEXT}]}

"parse" tells of files what their rules mean, in the words of oslo.policy, and null where it cannot load them. With
"keystone" the rules that Keystone ships stand where the file has none. Nothing is asked over the network: a check that
would do so raises an exception.
"""

import base64
import io
import json
import logging
import os
import sys
import tempfile
import warnings

from oslo_config import cfg
from oslo_policy import _checks
from oslo_policy import policy
import requests

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")


def refuse(*args, **kwargs):
    raise RuntimeError("the reference asks no other host")


requests.post = refuse


def shipped_rules():
    from keystone.common import policies

    return policies.list_rules()


def enforcer_for(text, keystone, directory):
    path = os.path.join(directory, "policy.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    conf = cfg.ConfigOpts()
    conf(args=[], project="reference", default_config_files=[], default_config_dirs=[])
    enforcer = policy.Enforcer(conf, policy_file=path)
    enforcer.suppress_deprecation_warnings = True
    if keystone:
        enforcer.register_defaults(shipped_rules())
    enforcer.load_rules()
    return enforcer


def answer(enforcer, question):
    try:
        passed = enforcer.enforce(question["rule"], question["target"], dict(question["credentials"]))
    except Exception:
        return "error"
    return "allow" if passed else "deny"


def written(check):
    """Writes a check as oslo.policy does, without parentheses around an "and" in an "and" and an "or" in an "or"."""
    for kind, operator in ((_checks.AndCheck, " and "), (_checks.OrCheck, " or ")):
        if isinstance(check, kind):
            return "(" + operator.join(flat(check, kind)) + ")"
    if isinstance(check, _checks.NotCheck):
        return "not " + written(check.rule)
    return str(check)


def flat(check, kind):
    for rule in check.rules:
        if isinstance(rule, kind):
            yield from flat(rule, kind)
        else:
            yield written(rule)


def parse(encoded):
    """Reads a file as oslo.policy opens it, with the kinds of line ends made one."""
    try:
        text = io.TextIOWrapper(io.BytesIO(base64.b64decode(encoded)), encoding="utf-8").read()
        rules = policy.Rules.load(text)
    except Exception:
        return None
    return {name: written(check) for name, check in rules.items() if isinstance(name, str)}


def reply(request, directory):
    if "parse" in request:
        return {"parsed": [parse(encoded) for encoded in request["parse"]]}
    if request.get("shipped"):
        return {
            "rules": [
                {
                    "name": rule.name,
                    "rule": rule.check_str,
                    "former": rule.deprecated_rule.check_str if rule.deprecated_rule else "",
                }
                for rule in shipped_rules()
            ]
        }
    try:
        enforcer = enforcer_for(request["file"], request.get("keystone", False), directory)
    except Exception:
        return {"loads": False, "answers": []}
    return {"loads": True, "answers": [answer(enforcer, q) for q in request["questions"]]}


with tempfile.TemporaryDirectory() as directory:
    for line in sys.stdin:
        print(json.dumps(reply(json.loads(line), directory)), flush=True)
