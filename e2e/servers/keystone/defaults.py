#!/usr/bin/python3
"""Writes the policy defaults of a Keystone release as JSON: defaults.py RELEASE SOURCE

The Keystone that is asked is the one that Python finds; PYTHONPATH names the directory of another one, such as that of an unpacked package.
RELEASE is a release of OpenStack, such as 2025.1, and SOURCE says which version of which package it is. Only keystone.common.policies is
imported, and nothing of it is run. The output belongs into internal/oslopolicy/releases.
"""

import json
import logging
import sys
import warnings

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")

from keystone.common import policies  # noqa: E402


def main(release, source):
    rules = []
    for rule in policies.list_rules():
        entry = {"name": rule.name, "rule": rule.check_str}
        if rule.deprecated_rule and rule.deprecated_rule.check_str != rule.check_str:
            entry["former"] = rule.deprecated_rule.check_str
        rules.append(json.dumps(entry))
    print('{"release": %s, "source": %s, "rules": [' % (json.dumps(release), json.dumps(source)))
    print(",\n".join(rules))
    print("]}")


main(*sys.argv[1:])
