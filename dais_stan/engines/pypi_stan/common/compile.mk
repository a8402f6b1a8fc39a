# What the makefiles of both folders, bridgestan and cmdstan, share: the flags of a Stan program's object and
# its precompiled header, which takes most of a gigabyte and so is kept once, in headers/.
# make/local, if there is one, may set CXX, O, CXXFLAGS, LDFLAGS, STANC, STANCFLAGS ...
# Paths are relative to the folder, because it may have a space, which make cannot handle.
-include make/local

STAN_THREADS ?= true
STANC ?= bin/stanc
O ?= 3
ifeq ($(shell uname -s),Darwin)
  CXX := $(if $(filter default,$(origin CXX)),clang++,$(CXX))
endif

# _GLIBCXX_USE_CXX11_ABI=0: the wheel's TBB is built with the old ABI of libstdc++.
DEFINES := -D_REENTRANT -DBOOST_DISABLE_ASSERTS -DBOOST_PHOENIX_NO_VARIADIC_EXPRESSION \
  -D_GLIBCXX_USE_CXX11_ABI=0 \
  $(if $(STAN_THREADS),-DSTAN_THREADS) $(if $(BRIDGESTAN_AD_HESSIAN),-DSTAN_MODEL_FVAR_VAR)
COMPILE := $(CXX) -std=c++17 -O$(O) -fPIC -fvisibility=hidden -w $(DEFINES) -isystem httpstan/include \
  $(CXXFLAGS)
LINK := $(CXX) $(LDFLAGS) -Xlinker -rpath -Xlinker "$$(cd httpstan/lib && pwd -P)" -Lhttpstan/lib
LIBRARIES := -ltbb -lsundials_cvodes -lsundials_idas -lsundials_kinsol -lsundials_nvecserial

# A compiler takes a precompiled header only if it was made by itself with the same flags.
FLAGS_KEY := $(shell { $(CXX) --version; echo "$(COMPILE)"; } 2>&1 | cksum | cut -d' ' -f1)
HEADER := headers/$(FLAGS_KEY)/model_header.hpp
# Few programs ask for second derivatives by autodiff: precompiling their header, another gigabyte, would take
# longer than it saves.
PRECOMPILED := $(if $(BRIDGESTAN_AD_HESSIAN),,$(HEADER).gch)

# Files that programs share are written under a name of their own and renamed, so that an interrupted make,
# or two at once, leave nothing that looks finished.
FINISH = -o $@.$$$$ && mv -f $@.$$$$ $@ || { rm -f $@.$$$$; exit 1; }

.SECONDARY:
$(HEADER):
	mkdir -p headers/$(FLAGS_KEY)
	printf '#include <%s>\n' $(if $(BRIDGESTAN_AD_HESSIAN),stan/math/mix.hpp) stan/model/model_header.hpp \
	  > $(HEADER).$$$$ && mv -f $(HEADER).$$$$ $(HEADER)

# By order only: two makes may write the header one after the other, and it says the same.
$(HEADER).gch: | $(HEADER)
	$(COMPILE) -x c++-header $(HEADER) $(FINISH)

%.hpp: %.stan
	$(STANC) $(STANCFLAGS) --o=$@ $<
