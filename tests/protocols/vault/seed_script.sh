#!/bin/bash
# The contract's own test: two agents start at the same time, and one of them has the task. VAULT_PATH names the vault.

# 1. A task
echo "# Test Task" > "$VAULT_PATH/Needs_Action/test-task.md"

# 2. Two agents at the same time
AGENT_ROLE=CLOUD dibs vault agent --once --claim-only &
AGENT_ROLE=LOCAL dibs vault agent --once --claim-only &
wait

# 3. Only one of them has it
cloud="$VAULT_PATH/In_Progress/cloud/test-task.md"
local="$VAULT_PATH/In_Progress/local/test-task.md"
if [ -f "$cloud" ] && [ -f "$local" ]; then
    echo "✗ Both agents claimed task (FAILED)"
    exit 1
elif [ -f "$cloud" ]; then
    echo "✓ Cloud agent claimed task (PASSED)"
elif [ -f "$local" ]; then
    echo "✓ Local agent claimed task (PASSED)"
else
    echo "✗ No agent claimed task (FAILED)"
    exit 1
fi

# 4. It is gone from Needs_Action
if [ -f "$VAULT_PATH/Needs_Action/test-task.md" ]; then
    echo "✗ Task still in Needs_Action (FAILED)"
    exit 1
fi
echo "✓ Task removed from Needs_Action (PASSED)"
echo "✓ All claim-by-move tests: PASSED"
