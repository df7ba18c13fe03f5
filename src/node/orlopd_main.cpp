// SPDX-License-Identifier: Apache-2.0
#include "node/node_main.h"

int main(int argc, char** argv) {
  return orlop::node::node_main({"orlopd"}, {argv + (argc > 0 ? 1 : 0), argv + argc});
}
